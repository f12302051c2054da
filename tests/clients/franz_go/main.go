// Copies a topic to another in transactions of at most ten records, with franz-go, until it is
// killed. A value is copied with an exclamation mark.
//
// Arguments: bootstrap servers, source, target, transactional id, and for a member of a group that
// is not named like that and has the protocol of KIP-848: the group.
//
// With TLS_DIRECTORY in the environment it connects by TLS, with the files ca.pem and client.pem of
// that directory. The variable SASL may say how it authenticates.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const recordsPerTransaction = 10

func main() {
	servers, source, target := os.Args[1], os.Args[2], os.Args[3]
	name, group := os.Args[4], os.Args[4]
	isServerSide := len(os.Args) > 5
	if isServerSide {
		group = os.Args[5]
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(20 * time.Second),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(3 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if isServerSide {
		options = append(options, kgo.ServerSideBalancer())
	}
	if directory := os.Getenv("TLS_DIRECTORY"); directory != "" {
		options = append(options, kgo.DialTLSConfig(tlsConfig(directory)))
	}
	options = append(options, secured()...)
	session, err := kgo.NewGroupTransactSession(options...)
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

// tlsConfig has the authority ca.pem and the certificate of client.pem, with its key.
func tlsConfig(directory string) *tls.Config {
	authority, err := os.ReadFile(filepath.Join(directory, "ca.pem"))
	if err != nil {
		fail(err)
	}
	pair := filepath.Join(directory, "client.pem")
	certificate, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		fail(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}
}

// secured is how the client authenticates: by SASL=MECHANISM:USER:PASSWORD, the password maybe a
// token; not at all without that. With DELEGATION_TOKEN set, user and password are those of one.
func secured() []kgo.Opt {
	parts := strings.SplitN(os.Getenv("SASL"), ":", 3)
	if len(parts) < 3 {
		return nil
	}
	isToken := os.Getenv("DELEGATION_TOKEN") != ""
	user := scram.Auth{User: parts[1], Pass: parts[2], IsToken: isToken}
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: parts[1], Pass: parts[2]}.AsMechanism(),
		"SCRAM-SHA-256": user.AsSha256Mechanism(),
		"SCRAM-SHA-512": user.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: parts[2]}.AsMechanism(),
	}
	return []kgo.Opt{kgo.SASL(mechanisms[parts[0]])}
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
