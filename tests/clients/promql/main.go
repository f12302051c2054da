// Checks PromQL with Prometheus' own packages, which promtool is made of.
//
//	promql rules FILE...      parses and validates rules as `promtool check rules` does
//	promql names              reads a query per line, prints the names of its metrics
package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var queries = parser.NewParser(parser.Options{})

func main() {
	failed := false
	report := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		failed = true
	}
	if os.Args[1] == "rules" {
		for _, file := range os.Args[2:] {
			groups, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, queries, slog.Default())
			for _, err := range errs {
				report(err)
			}
			if len(errs) > 0 {
				continue
			}
			for _, group := range groups.Groups {
				for _, rule := range group.Rules {
					fmt.Println(rule.Alert)
					names(rule.Expr, report)
				}
			}
		}
	} else {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			names(lines.Text(), report)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// names prints "metric NAME" for each metric of a query.
func names(query string, report func(error)) {
	expression, err := queries.ParseExpr(query)
	if err != nil {
		report(fmt.Errorf("%s: %w", query, err))
		return
	}
	for _, matchers := range parser.ExtractSelectors(expression) {
		for _, matcher := range matchers {
			if matcher.Name == labels.MetricName {
				fmt.Println("metric", matcher.Value)
			}
		}
	}
}
