package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
)

const providerModule = "github.com/aws/karpenter-provider-aws"

// moduleTables is what the provider's module has, per type.
type moduleTables struct {
	version    string
	priceDate  string
	prices     map[string]float64
	bandwidths map[string]int
	limits     map[string]limit
}

// limit is one entry of the provider's network limits.
type limit struct {
	cards            []int
	defaultCard      int
	ipv4PerInterface int
	bareMetal        bool
}

// readModule reads the tables out of the module's source. Parsing them instead of
// importing them keeps the provider and the AWS SDK out of this build.
func readModule() (moduleTables, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}@{{.Version}}\n{{.Dir}}", providerModule).Output()
	if err != nil {
		return moduleTables{}, fmt.Errorf("locating module %s, run `go mod download` first: %w", providerModule, err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	m := moduleTables{version: version}
	if m.prices, m.priceDate, err = readPrices(filepath.Join(dir, "pkg/providers/pricing/zz_generated.pricing_aws.go")); err != nil {
		return m, fmt.Errorf("reading the module's prices: %w", err)
	}
	if m.bandwidths, err = readBandwidths(filepath.Join(dir, "pkg/providers/instancetype/zz_generated.bandwidth.go")); err != nil {
		return m, fmt.Errorf("reading the module's bandwidths: %w", err)
	}
	if m.limits, err = readLimits(filepath.Join(dir, "pkg/providers/instancetype/zz_generated.vpclimits.go")); err != nil {
		return m, fmt.Errorf("reading the module's network limits: %w", err)
	}
	return m, nil
}

func readPrices(path string) (map[string]float64, string, error) {
	table, comments, err := readTable(path, "InitialOnDemandPricesAWS")
	if err != nil {
		return nil, "", err
	}
	date := regexp.MustCompile(`generated at (\d{4}-\d\d-\d\d)T\S+ for us-east-1`).FindStringSubmatch(comments)
	if date == nil {
		return nil, "", errors.New("the file has no date")
	}
	prices := map[string]float64{}
	region, ok := entries(table)["us-east-1"]
	if !ok {
		return nil, "", errors.New("there is no us-east-1")
	}
	for name, value := range entries(region) {
		if prices[name], err = strconv.ParseFloat(literal(value), 64); err != nil {
			return nil, "", fmt.Errorf("type %q: %w", name, err)
		}
	}
	return prices, date[1], nil
}

// addPrices takes prices that the module lacks from another table of the provider's,
// and returns the day of that.
func (m moduleTables) addPrices(path string) (string, error) {
	prices, date, err := readPrices(path)
	if err != nil {
		return "", err
	}
	for name, usd := range prices {
		if _, ok := m.prices[name]; !ok {
			m.prices[name] = usd
		}
	}
	return date, nil
}

func readBandwidths(path string) (map[string]int, error) {
	table, _, err := readTable(path, "InstanceTypeBandwidthMegabits")
	if err != nil {
		return nil, err
	}
	bandwidths := map[string]int{}
	for name, value := range entries(table) {
		if bandwidths[name], err = strconv.Atoi(literal(value)); err != nil {
			return nil, fmt.Errorf("type %q: %w", name, err)
		}
	}
	return bandwidths, nil
}

func readLimits(path string) (map[string]limit, error) {
	table, _, err := readTable(path, "Limits")
	if err != nil {
		return nil, err
	}
	limits := map[string]limit{}
	for name, value := range entries(table) {
		fields := entries(value)
		l := limit{bareMetal: literal(fields["IsBareMetal"]) == "true"}
		var errs [2]error
		l.defaultCard, errs[0] = strconv.Atoi(literal(fields["DefaultNetworkCardIndex"]))
		l.ipv4PerInterface, errs[1] = strconv.Atoi(literal(fields["IPv4PerInterface"]))
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("type %q: %w", name, err)
		}
		cards, _ := fields["NetworkCards"].(*ast.CompositeLit)
		if cards == nil {
			return nil, fmt.Errorf("type %q has no network cards", name)
		}
		for _, card := range cards.Elts {
			most, err := strconv.Atoi(literal(entries(card)["MaximumNetworkInterfaces"]))
			if err != nil {
				return nil, fmt.Errorf("type %q: %w", name, err)
			}
			l.cards = append(l.cards, most)
		}
		limits[name] = l
	}
	return limits, nil
}

// readTable returns the value of a package variable and the file's comments.
func readTable(path, name string) (ast.Expr, string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, "", err
	}
	var comments strings.Builder
	for _, group := range file.Comments {
		comments.WriteString(group.Text())
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if ok && len(value.Values) == 1 && value.Names[0].Name == name {
				return value.Values[0], comments.String(), nil
			}
		}
	}
	return nil, "", fmt.Errorf("%s has no variable %s", path, name)
}

// entries returns the keyed elements of a map or struct literal.
func entries(expr ast.Expr) map[string]ast.Expr {
	found := map[string]ast.Expr{}
	composite, ok := expr.(*ast.CompositeLit)
	if !ok {
		return found
	}
	for _, element := range composite.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			found[literal(pair.Key)] = pair.Value
		}
	}
	return found
}

func literal(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
		return e.Value
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// compareLimits lists where the module's limits and the type differ. The newest
// types have no limits yet.
func compareLimits(t catalog.InstanceType, l limit) []string {
	if l.cards == nil {
		return nil
	}
	var differences []string
	differ := func(what string, module, api any) {
		differences = append(differences, fmt.Sprintf("%s: module %v, API %v", what, module, api))
	}
	if !slices.Equal(l.cards, t.Network.Cards) {
		differ("interfaces per network card", l.cards, t.Network.Cards)
	}
	if l.defaultCard != t.Network.DefaultCard {
		differ("default network card", l.defaultCard, t.Network.DefaultCard)
	}
	if l.ipv4PerInterface != t.Network.IPv4PerInterface {
		differ("IPv4 addresses per interface", l.ipv4PerInterface, t.Network.IPv4PerInterface)
	}
	if l.bareMetal != t.BareMetal() {
		differ("bare metal", l.bareMetal, t.BareMetal())
	}
	return differences
}
