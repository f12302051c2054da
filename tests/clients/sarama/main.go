// Produces a record with sarama 1.43.3, whose batches claim a largest timestamp of -1, then looks for its offset by time.
//
// Arguments: bootstrap servers, topic. Prints the offset of the record, then the offset found by its timestamp.
//
// With a third argument, "reassign", it moves partition 0 to the replicas 3 and 1 as kafkactl does, with one admin client,
// and prints the replicas before and after, the error of a broker that does not exist, and how many topics there are.
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
	if len(os.Args) > 3 && os.Args[3] == "reassign" {
		reassign(servers, topic, config)
		return
	}
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

func reassign(servers []string, topic string, config *sarama.Config) {
	admin, err := sarama.NewClusterAdmin(servers, config)
	must(err)
	defer admin.Close()
	replicas := func() []int32 {
		described, err := admin.DescribeTopics([]string{topic})
		must(err)
		return described[0].Partitions[0].Replicas
	}
	before := replicas()
	must(admin.AlterPartitionReassignments(topic, [][]int32{{3, 1}}))
	for {
		listed, err := admin.ListPartitionReassignments(topic, []int32{0})
		must(err)
		if len(listed[topic]) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	after := replicas()
	refused := admin.AlterPartitionReassignments(topic, [][]int32{{9}})
	topics, err := admin.ListTopics()
	must(err)
	fmt.Println(before, after, refused, len(topics))
}
