package loadgen

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// Secret is a credential. It prints, formats and marshals as "[redacted]"; convert
// it to string to use it.
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

// credentialWords are parts of header and query names whose values are taken for
// credentials.
var credentialWords = []string{"auth", "key", "token", "secret", "cookie", "password", "credential", "signature"}

func looksSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
}

// safeURL is the URL with every query value that looks like a credential redacted.
func safeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	u.User = nil
	q := u.Query()
	for name := range q {
		if looksSecret(name) {
			q.Set(name, redacted)
		}
	}
	if len(q) > 0 {
		u.RawQuery = q.Encode()
	}
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

// scrubber removes a plan's credentials from free text.
type scrubber struct{ replacer *strings.Replacer }

func newScrubber(tenants []Tenant) *scrubber {
	var secrets []string
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= 4 {
			secrets = append(secrets, s)
		}
	}
	for i := range tenants {
		for _, e := range tenants[i].Endpoints {
			add(string(e.APIKey))
			for name, values := range e.Header {
				if !looksSecret(name) {
					continue
				}
				for _, v := range values {
					add(v)
					if _, token, ok := strings.Cut(v, " "); ok {
						add(token)
					}
				}
			}
			if u, err := url.Parse(e.URL); err == nil {
				for name, values := range u.Query() {
					if looksSecret(name) {
						for _, v := range values {
							add(v)
						}
					}
				}
			}
		}
	}
	// Longest first: a secret that begins with another must not leave its tail.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, redacted)
	}
	return &scrubber{strings.NewReplacer(pairs...)}
}

func (s *scrubber) clean(text string) string { return s.replacer.Replace(text) }
