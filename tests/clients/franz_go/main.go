// Copies a topic to another in transactions of at most ten records, with franz-go, until it is
// killed. A value is copied with an exclamation mark.
//
// Arguments: bootstrap servers, source, target, transactional id (and group).
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsPerTransaction = 10

func main() {
	servers, source, target, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(20*time.Second),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(3*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		fail(err)
	}
	// Ends what another instance left open. Otherwise the committed offsets are unstable until the
	// transaction times out, and the client asks for a producer id in its first transaction only.
	if _, _, err := session.Client().ProducerID(context.Background()); err != nil {
		fail(err)
	}
	for {
		fetches := session.PollRecords(context.Background(), recordsPerTransaction)
		if fetches.NumRecords() > 0 {
			transform(session, fetches, target)
		}
	}
}

// transform is one transaction. The session goes back to the committed offsets where it aborts.
func transform(session *kgo.GroupTransactSession, fetches kgo.Fetches, target string) {
	if err := session.Begin(); err != nil {
		fail(err)
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		value := append(record.Value, '!')
		copied := &kgo.Record{Topic: target, Key: record.Key, Value: value}
		session.Produce(context.Background(), copied, promise.Promise())
	})
	produced := promise.Err() == nil
	committed, err := session.End(context.Background(), kgo.TransactionEndTry(produced))
	if err != nil {
		fail(err)
	}
	fmt.Fprintln(os.Stderr, "committed:", committed)
}

// fail ends the program as what cannot go on with this producer; it is to be started again.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}
