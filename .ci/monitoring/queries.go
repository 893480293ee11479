package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// Query is a PromQL expression of an alert or of a dashboard's panel.
type Query struct {
	// Place names the file, and the alert or the panel.
	Place string
	// Expr is the expression with values for Grafana's variables.
	Expr string
}

// variables are values for the dashboards' variables: all node pools, all Syncs, and a rate over the time that
// the recording of a demo has.
var variables = strings.NewReplacer("$nodepool", ".*", "$sync", ".*", "$__rate_interval", "1m")

// Rules reads the alerts of config/monitoring below root, the root of the repository.
func Rules(root string) ([]monitoringv1.Rule, error) {
	path := filepath.Join(root, "config", "monitoring", "rules.yaml")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var object monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(raw, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var rules []monitoringv1.Rule
	for _, group := range object.Spec.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}

// Dashboard is what is checked of a Grafana dashboard.
type Dashboard struct {
	// File is its name without .json.
	File       string `json:"-"`
	UID, Title string
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []Panel
}

// Panel is one of a dashboard's.
type Panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ UID string }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct {
				FillOpacity float64
				Stacking    struct{ Mode string }
			}
		}
		Overrides []struct {
			Matcher struct {
				ID      string
				Options struct{ Reducer string }
			}
			Properties []struct{ ID string }
		}
	}
	Targets []struct{ RefID, Expr, LegendFormat string }
}

// Dashboards reads those of config/monitoring below root.
func Dashboards(root string) ([]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(root, "config", "monitoring", "dashboards", "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Dashboard
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		board := Dashboard{File: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(raw, &board); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out = append(out, board)
	}
	return out, nil
}

// Queries are those of all alerts and panels.
func Queries(root string) ([]Query, error) {
	rules, err := Rules(root)
	if err != nil {
		return nil, err
	}
	boards, err := Dashboards(root)
	if err != nil {
		return nil, err
	}
	var out []Query
	for _, rule := range rules {
		out = append(out, Query{"rules.yaml: " + rule.Alert, rule.Expr.String()})
	}
	for _, board := range boards {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				out = append(out, Query{board.File + ".json: " + panel.Title + " " + target.RefID, variables.Replace(target.Expr)})
			}
		}
	}
	return out, nil
}
