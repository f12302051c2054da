// Produces a record with sarama 1.43.3, whose batches claim a largest timestamp of -1, then looks for its offset by time.
//
// Arguments: bootstrap servers, topic. Prints the offset of the record, then the offset found by its timestamp.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	servers, topic := strings.Split(os.Args[1], ","), os.Args[2]
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	client, err := sarama.NewClient(servers, config)
	must(err)
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	must(err)
	before := time.Now()
	_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("v")})
	must(err)
	found, err := client.GetOffset(topic, 0, before.UnixMilli()-1000)
	must(err)
	fmt.Println(offset, found)
}
