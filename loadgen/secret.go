package loadgen

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// Secret is a credential. It prints, formats and marshals as "[redacted]"; convert it to string to use it.
type Secret string

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString returns what String returns.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// credentialWords are parts of header, field and query names whose values are taken for credentials.
var credentialWords = []string{
	"auth", "key", "token", "secret", "cookie", "passw", "passphrase", "pwd", "credential", "sig", "jwt", "bearer",
	"session", "code",
}

func looksSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
}

// harmlessQueries are the names of a URL's query whose values are no credentials;
// every other one's is taken for one.
var harmlessQueries = []string{
	"alt", "api-version", "api_version", "debug", "deployment", "deployment-id", "deployment_id", "engine", "format",
	"model", "region", "replica",
	"stream", "timeout", "version",
}

// queryPairs calls with for each part of a raw query, names decoded and values not. What has no name is a value.
func queryPairs(raw string, with func(part, name, value string)) {
	for part := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, ok := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if !ok && !slices.Contains(harmlessQueries, strings.ToLower(name)) {
			name, value = "", part
		}
		with(part, name, value)
	}
}

// safeURL is the URL without what is, or may be, a credential in it.
func safeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	var parts []string
	queryPairs(u.RawQuery, func(part, name, _ string) {
		switch {
		case slices.Contains(harmlessQueries, strings.ToLower(name)):
			parts = append(parts, part)
		case name == "":
			parts = append(parts, redacted)
		default:
			parts = append(parts, url.QueryEscape(name)+"="+redacted)
		}
	})
	u.RawQuery = strings.Join(parts, "&")
	return u.String()
}

func safeHeader(h http.Header) map[string]string {
	if len(h) == 0 {
		return nil
	}
	out := make(map[string]string, len(h))
	for name, values := range h {
		if looksSecret(name) {
			out[textproto.CanonicalMIMEHeaderKey(name)] = redacted
		} else {
			out[textproto.CanonicalMIMEHeaderKey(name)] = strings.Join(values, ", ")
		}
	}
	return out
}
