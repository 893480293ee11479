package engine

import (
	"flag"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// stockOptions are what Karpenter's own flags give when nothing is set.
func stockOptions(t *testing.T) options {
	t.Helper()
	stock := options{core: &coreoptions.Options{}, provider: &awsoptions.Options{}}
	for _, injectable := range []coreoptions.Injectable{stock.core, stock.provider} {
		flags := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("stock", flag.ContinueOnError)}
		flags.SetOutput(io.Discard)
		injectable.AddFlags(flags)
		var args []string
		if injectable == coreoptions.Injectable(stock.provider) {
			args = []string{"--cluster-name=dev"}
		}
		if err := injectable.Parse(flags, args...); err != nil {
			t.Fatal(err)
		}
	}
	return stock
}

// exportedDiff compares exported fields, recursively; the others are leftovers of
// flag parsing.
func exportedDiff(want, got any) string {
	var lines []string
	a, b := reflect.ValueOf(want), reflect.ValueOf(got)
	for i := range a.NumField() {
		field := a.Type().Field(i)
		switch {
		case !field.IsExported():
		case field.Type.Kind() == reflect.Struct:
			if diff := exportedDiff(a.Field(i).Interface(), b.Field(i).Interface()); diff != "" {
				lines = append(lines, field.Name+"."+diff)
			}
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			lines = append(lines, fmt.Sprintf("%s: -%v +%v", field.Name, a.Field(i), b.Field(i)))
		}
	}
	return strings.Join(lines, "\n")
}
