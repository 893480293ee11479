package remote

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// TestAPasswordIsHiddenAsItStandsInAnAddress, and as it is.
func TestAPasswordIsHiddenAsItStandsInAnAddress(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy.example.com:3128", User: url.UserPassword("ada", "s3cret/of@ada")}
	c := &Connection{secrets: Credentials{Proxy: proxy}.secrets()}
	for _, message := range []string{"s3cret/of@ada", proxy.String()} {
		if got := c.redacted(errors.New("no route to " + message)); strings.Contains(got.Error(), "s3cret") {
			t.Errorf("%q holds it", got.Error())
		}
	}
	if got := (Credentials{Proxy: &url.URL{Host: "proxy.example.com:3128"}}).secrets(); len(got) > 0 {
		t.Errorf("without a password %q is hidden", got)
	}
}
