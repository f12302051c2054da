// Prints the lag of every group, as franz-go's admin client calculates it (KMinion uses this client).
//
// A line has group, topic, partition, committed offset and lag, separated by tabs.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	lags, err := kadm.NewClient(client).Lag(context.Background())
	if err != nil {
		panic(err)
	}
	for _, group := range lags.Sorted() {
		if err := group.Error(); err != nil {
			panic(err)
		}
		for _, one := range group.Lag.Sorted() {
			fmt.Printf("%s\t%s\t%d\t%d\t%d\n", group.Group, one.Topic, one.Partition, one.Commit.At, one.Lag)
		}
	}
}
