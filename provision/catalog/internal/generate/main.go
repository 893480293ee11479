// Command generate makes the catalog's table, types.csv, from public sources and
// refuses to make one that they disagree about. It writes figures only; no text of
// a source is carried over.
//
// Sources:
//
//   - -docs FILE: the provider's reference page of instance types, the file
//     website/content/en/v1.14/reference/instance-types.md in the repository
//     github.com/aws/karpenter-provider-aws (commit 1d927085dd81).
//   - -api DATE=FILE, repeatable, newest first: an EC2 DescribeInstanceTypes response
//     of that day, either as `aws ec2 describe-instance-types` prints it or as an
//     object keyed by type. Public copies lie in github.com/getmoto/moto at
//     moto/ec2/resources/instance_types.json; the table was made from commit
//     34d6cad5abbb (2026-08-02).
//   - -prices FILE, optional: a newer table of prices of the provider's, the file
//     pkg/providers/pricing/zz_generated.pricing_aws.go of its repository, for
//     types that the module has no price of; the table was made with that of
//     commit 6fc13b523 (2026-07-20), for g7.
//   - the module github.com/aws/karpenter-provider-aws that go.mod names: its
//     on-demand prices, network limits and network bandwidths.
//
// The types are those of the reference page. Of what only an API response describes
// (Macs, and types that none of the page's regions has) standard error has a list, as
// it has of types without a price. The API response gives the figures. Every label on
// the reference page and every limit in the module must then agree with them; only the
// clock speed may differ, because EC2 revised some after the page was made, and each
// such difference is listed.
//
// Run it from the repository's root:
//
//	go run ./provision/catalog/internal/generate -docs instance-types.md -api 2026-08-02=new.json -prices prices.go
//
// or `go generate ./provision/catalog` with CATALOG_DOCS, CATALOG_API and
// CATALOG_PRICES set to the values of the three flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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
	var responses []apiResponse
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(log)
	docsFile := flags.String("docs", "", "the provider's reference page of instance types (Markdown)")
	flags.Func("api", "DATE=FILE, a DescribeInstanceTypes response (JSON) and its day, newest first", func(s string) error {
		date, path, ok := strings.Cut(s, "=")
		if _, err := time.Parse(time.DateOnly, date); err != nil || !ok {
			return errors.New("write it as YYYY-MM-DD=FILE")
		}
		responses = append(responses, apiResponse{date: date, path: path})
		return nil
	})
	prices := flags.String("prices", "", "a newer table of the provider's prices (Go), for types that its module has no price of")
	out := flags.String("out", "provision/catalog/types.csv", "the table to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *docsFile == "" || len(responses) == 0 {
		return errors.New("flags -docs and -api are required; the package comment names the sources of the files")
	}
	docs, err := readDocs(*docsFile)
	if err != nil {
		return err
	}
	api, err := readAPI(responses)
	if err != nil {
		return err
	}
	module, err := readModule()
	if err != nil {
		return err
	}
	sources := sourcesOf(responses, module)
	if *prices != "" {
		date, err := module.addPrices(*prices)
		if err != nil {
			return fmt.Errorf("reading the newer prices: %w", err)
		}
		sources = append(sources, "on-demand prices that the module lacks: the provider's table of "+date)
	}
	types, err := combine(docs, api, module, log)
	if err != nil {
		return err
	}
	c, err := catalog.New(module.priceDate, sources, types)
	if err != nil {
		return err
	}
	return write(*out, c)
}

func combine(docs map[string]map[string]string, api map[string]apiType, module moduleTables, log io.Writer) ([]catalog.InstanceType, error) {
	var types []catalog.InstanceType
	var problems []string
	for _, name := range sortedKeys(api) {
		if _, ok := docs[name]; !ok {
			fmt.Fprintf(log, "left out %s: the reference page has no such type\n", name)
		}
	}
	for _, name := range sortedKeys(docs) {
		described, ok := api[name]
		if !ok {
			problems = append(problems, name+" is on the reference page, and no API response describes it")
			continue
		}
		price, priced := module.prices[name]
		if !priced {
			fmt.Fprintf(log, "without a price: %s\n", name)
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

// sourcesOf are the lines of the table with where its figures come from.
func sourcesOf(responses []apiResponse, module moduleTables) []string {
	var sources []string
	for i, response := range responses {
		what := "figures: EC2 DescribeInstanceTypes of all regions, " + response.date
		if i > 0 {
			what += ", for types that newer responses lack"
		}
		sources = append(sources, what)
	}
	return append(sources,
		"on-demand prices of us-east-1 and network bandwidths: "+module.version,
		"checked against: instance type reference and network limits of the same")
}

func write(path string, c *catalog.Catalog) error {
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
