package sanitize

import (
	"regexp"
	"slices"
	"strings"
)

// shape is a form by which a secret is known wherever it stands. Where the
// pattern has a group, only the group is secret.
type shape struct {
	// hints are what a match must contain one of: searching for them is many
	// times faster than matching, and almost no text has any.
	hints   []string
	pattern *regexp.Regexp
}

// shapes are the tokens of forges, clouds and model hubs, JSON web tokens,
// authorization headers, query parameters that sign or authenticate, and
// private keys.
var shapes = []shape{
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{16,}`)},
	{[]string{"github_pat_"}, regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{16,}`)},
	{[]string{"gl"}, regexp.MustCompile(`\bgl(?:pat|dt|rt|cbt|ptt|soat|ft|agent|oas)-[A-Za-z0-9_-]{16,}`)},
	{[]string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z0-9]{16,}`)},
	{[]string{"nvapi-"}, regexp.MustCompile(`\bnvapi-[A-Za-z0-9_-]{16,}`)},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[a-z]-[A-Za-z0-9-]{10,}`)},
	{[]string{"sk-"}, regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`)},
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`)},
	{[]string{"earer", "EARER"}, regexp.MustCompile(`(?i:\bbearer\s+)([A-Za-z0-9._~+/=-]{8,})`)},
	{[]string{"uthorization", "UTHORIZATION"}, regexp.MustCompile(`(?i:\bauthorization["']?\s*[:=]\s*["']?)((?:(?i:basic|bearer|token)\s+)?[^\s"']+)`)},
	{[]string{"?", "&"}, regexp.MustCompile(`(?i:[?&][a-z0-9_.-]*(?:token|signature|sig|secret|password|credential)=)([^&\s"'<>]+)`)},
	{[]string{"PRIVATE KEY"}, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)},
}

// noSecret is the user as whom everybody logs in to Git servers by ssh.
const noSecret = "git"

// url is a scheme and all that may belong to the URL after it.
var url = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>\x60]+`)

// Redact is text with what is a secret by its shape replaced by Masked: passwords in URLs,
// tokens, private keys. It escapes nothing.
func Redact(s string) string { return RedactFunc(s, func(string) string { return Masked }) }

// RedactFunc replaces what Redact masks by what the function returns for it.
func RedactFunc(s string, replace func(secret string) string) string {
	if strings.Contains(s, "://") {
		s = url.ReplaceAllStringFunc(s, func(u string) string {
			start, end := userInfo(u)
			if end <= start || u[start:end] == noSecret {
				return u
			}
			return u[:start] + replace(u[start:end]) + u[end:]
		})
	}
	for _, known := range shapes {
		if slices.ContainsFunc(known.hints, func(hint string) bool { return strings.Contains(s, hint) }) {
			s = replaceAll(known.pattern, s, replace)
		}
	}
	return s
}

// replaceAll replaces each match, or only its group where the pattern has one.
func replaceAll(pattern *regexp.Regexp, s string, replace func(string) string) string {
	var out strings.Builder
	last := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		start, end := at[len(at)-2], at[len(at)-1]
		out.WriteString(s[last:start])
		out.WriteString(replace(s[start:end]))
		last = end
	}
	out.WriteString(s[last:])
	return out.String()
}

// userInfo finds what stands between a URL's "://" and the "@" before its
// host. A password with a raw slash in it makes the URL invalid, and invalid
// URLs are just the ones that end up in error messages: when the part up to
// the first slash is no host and port, the user info reaches to the last "@".
func userInfo(u string) (start, end int) {
	start = strings.Index(u, "://") + len("://")
	rest := u[start:]
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		return start, start + at
	}
	_, port, ok := strings.Cut(authority, ":")
	if !ok || strings.HasPrefix(authority, "[") || strings.Trim(port, "0123456789") == "" {
		return start, start
	}
	return start, start + max(0, strings.LastIndex(rest, "@"))
}
