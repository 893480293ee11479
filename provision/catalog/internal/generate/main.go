// Command generate makes the catalog's table, types.csv, from public sources and
// refuses to make one that they disagree about. It writes figures only; no text of
// a source is carried over.
//
// Sources:
//
//   - -docs FILE: the provider's reference page of instance types, the file
//     website/content/en/v1.14/reference/instance-types.md in the repository
//     github.com/aws/karpenter-provider-aws (table of 2026-07-11).
//   - -api DATE=FILE, repeatable, newest first: an EC2 DescribeInstanceTypes answer
//     of us-east-1 of that day, either as `aws ec2 describe-instance-types` prints it or as an
//     object keyed by type. Public copies lie in github.com/getmoto/moto at
//     moto/ec2/resources/instance_types.json; the table was made from commits
//     34d6cad5abbb (2026-08-02) and, for p3, which EC2 has stopped reporting,
//     95a01280bd2c (2026-04-01).
//   - the module github.com/aws/karpenter-provider-aws that go.mod names: its
//     on-demand prices, network limits and network bandwidths.
//
// A type is taken if its family belongs to the catalog (see wanted), the module has
// a price for it and an API answer describes it; types that lack one of these are
// listed on standard error. The API answer gives the figures. Every label on the
// documentation page and every limit in the module must then agree with them; only
// the clock speed may differ, because EC2 revised some after the page was made, and
// each such difference is listed.
//
// Run it from the repository's root:
//
//	go run ./provision/catalog/internal/generate -docs instance-types.md -api 2026-08-02=new.json -api 2026-04-01=old.json
//
// or `go generate ./provision/catalog` with CATALOG_DOCS, CATALOG_API and
// CATALOG_API_P3 set to the values of the three flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	var answers []apiAnswer
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(log)
	docsFile := flags.String("docs", "", "the provider's reference page of instance types (Markdown)")
	flags.Func("api", "DATE=FILE, a DescribeInstanceTypes answer (JSON) and its day, newest first", func(s string) error {
		date, path, ok := strings.Cut(s, "=")
		if _, err := time.Parse(time.DateOnly, date); err != nil || !ok {
			return errors.New("write it as YYYY-MM-DD=FILE")
		}
		answers = append(answers, apiAnswer{date: date, path: path})
		return nil
	})
	out := flags.String("out", "provision/catalog/types.csv", "the table to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *docsFile == "" || len(answers) == 0 {
		return errors.New("flags -docs and -api are required; the package comment says where the files are")
	}
	docs, err := readDocs(*docsFile)
	if err != nil {
		return err
	}
	api, err := readAPI(answers)
	if err != nil {
		return err
	}
	module, err := readModule()
	if err != nil {
		return err
	}
	types, err := combine(docs, api, module, log)
	if err != nil {
		return err
	}
	return write(*out, module, answers, types)
}

// wanted tells whether the catalog carries a family: the categories that the
// package comment names, from the first generation that current EKS images run on.
func wanted(name string) bool {
	return regexp.MustCompile(`^([cmr]([4-9]|\d\d)|t([2-9]|\d\d)|(g|gr)([4-9]|\d\d)|p([3-9]|\d\d))[a-z0-9-]*\.`).MatchString(name)
}

func combine(docs map[string]map[string]string, api map[string]apiType, module moduleTables, log io.Writer) ([]catalog.InstanceType, error) {
	var types []catalog.InstanceType
	var problems []string
	candidates := append(sortedKeys(api), sortedKeys(module.prices)...)
	slices.Sort(candidates)
	for _, name := range slices.Compact(candidates) {
		if !wanted(name) {
			continue
		}
		described, ok := api[name]
		price, priced := module.prices[name]
		if !ok || !priced {
			fmt.Fprintf(log, "left out %s: described by the API: %t, priced by the module: %t\n", name, ok, priced)
			continue
		}
		t, err := described.convert()
		if err != nil {
			return nil, fmt.Errorf("converting instance type %q: %w", name, err)
		}
		t.OnDemandUSD = price
		t.Network.BandwidthMbps = module.bandwidths[name]
		for _, d := range append(compareDocs(t, docs[name]), compareLimits(t, module.limits[name])...) {
			if strings.HasPrefix(d, clockLabel) {
				fmt.Fprintf(log, "took the API's figure: %s %s\n", name, d)
				continue
			}
			problems = append(problems, name+" "+d)
		}
		types = append(types, t)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("the sources disagree:\n%s", strings.Join(problems, "\n"))
	}
	return types, nil
}

func write(path string, module moduleTables, answers []apiAnswer, types []catalog.InstanceType) error {
	var sources []string
	for i, answer := range answers {
		what := "figures: EC2 DescribeInstanceTypes of us-east-1, " + answer.date
		if i > 0 {
			what += ", for types that newer answers lack"
		}
		sources = append(sources, what)
	}
	sources = append(sources,
		"on-demand prices of us-east-1 and network bandwidths: "+module.version,
		"checked against: instance type reference and network limits of the same")
	c, err := catalog.New(module.priceDate, sources, types)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	if _, err := c.WriteTo(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing the table: %w", err)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
