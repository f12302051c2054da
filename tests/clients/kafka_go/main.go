// Command read starts a consumer group of kafka-go and prints the first record that it reads.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	seconds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{bootstrap},
		GroupID:     topic,
		Topic:       topic,
		StartOffset: kafka.FirstOffset,
		MaxWait:     100 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(log.Printf),
	})
	defer reader.Close()
	message, err := reader.ReadMessage(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(message.Value))
}
