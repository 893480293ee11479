package assets

import (
	"encoding/json"
	"fmt"
	"strings"
)

// statement is an in-toto statement about files, with a predicate of SLSA's provenance.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []subject         `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder runBuilder `json:"builder"`
}

type runBuilder struct {
	ID string `json:"id"`
}

// provenance states from which commit the files and the image were made, and by whom. It is not signed:
// whoever publishes a release does that. It has no times, so that the same commit gives the same statement.
func (c Config) provenance(files []asset) (asset, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Predicate: predicate{
		BuildDefinition: buildDefinition{
			BuildType:          homepage + "/tree/main/.ci/release",
			ExternalParameters: map[string]string{"version": c.Release.Version, "repository": c.Repository},
			InternalParameters: map[string]string{"go": c.Binaries[0].Info.GoVersion},
			ResolvedDependencies: []subject{{
				URI: "git+" + homepage + "@refs/tags/" + c.Release.Version, Digest: map[string]string{"gitCommit": c.Release.Revision},
			}},
		},
		RunDetails: runDetails{Builder: runBuilder{ID: c.Builder}},
	}}
	for _, f := range files {
		s.Subject = append(s.Subject, subject{Name: f.name, Digest: map[string]string{"sha256": f.sha256()}})
	}
	s.Subject = append(s.Subject, subject{Name: c.Repository, Digest: map[string]string{"sha256": strings.TrimPrefix(c.ImageDigest, "sha256:")}})
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return asset{}, fmt.Errorf("writing the provenance: %w", err)
	}
	return asset{name: "provenance.intoto.json", content: append(content, '\n')}, nil
}
