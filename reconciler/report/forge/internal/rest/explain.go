package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Response is one that is no success.
type Response struct {
	Code int
	// Message is the forge's error.
	Message string
}

// Explain makes a *forge.Error of what a client returned: of a limit, of a response
// (Code is not 0), or of none at all. A cancelled context stays recognisable. Secrets
// are those that must not be in the text, whatever the forge or a proxy writes.
func Explain(doing string, err error, response Response, secrets ...string) *forge.Error {
	if known, ok := errors.AsType[*forge.Error](err); ok {
		out := *known
		if out.Operation == "" {
			out.Operation = doing
		}
		return &out
	}
	out := &forge.Error{Operation: doing, Code: response.Code, Cause: cause(err)}
	message := response.Message
	if response.Code == 0 || message == "" && response.Code < 300 {
		message = errorText(err)
	}
	out.Message = Clean(message, secrets...)
	return out
}

// cause keeps only what callers compare with: texts of other errors may hold what the
// forge sent.
func cause(err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// errorText is an error's text without the URL that Go's client puts in front.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return fmt.Sprintf("no such host %q", dns.Name)
	}
	return err.Error()
}

// tokens are the forms of credentials that forges give out, and what stands
// before the @ of an address.
var tokens = regexp.MustCompile(`\bgh[a-z]_[A-Za-z0-9_.-]+|\bgithub_pat_\w+|\bgl[a-z]+-[A-Za-z0-9_.-]{16,}|\beyJ[\w-]+\.[\w.-]+|(?i:bearer|token|basic)\s+[A-Za-z0-9._~+/=-]{16,}|://[^\s/@]*@|\?[^\s"']*`)

const maxMessageRunes = 300

// Clean makes one short line without secrets of what somebody else wrote.
func Clean(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(masked)")
		}
	}
	text = tokens.ReplaceAllStringFunc(text, func(found string) string {
		switch {
		case strings.HasPrefix(found, "://"):
			return "://(masked)@"
		case strings.HasPrefix(found, "?"):
			if len(found) < 3 {
				return found
			}
			return "?(masked)"
		}
		return "(masked)"
	})
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxMessageRunes {
		text = string(runes[:maxMessageRunes]) + "…"
	}
	return text
}
