// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// scrubber removes a plan's credentials from text, in whatever encoding they come and whatever is left of them: of a
// credential of at least gramSize characters, any gramSize of them in a row are removed; of a shorter one the whole.
type scrubber struct {
	forms    []string // encodings of the credentials, the longest first
	replacer *strings.Replacer
	grams    map[string]struct{}
}

const (
	gramSize      = 8
	minSecretSize = 4 // shorter ones would take words apart
)

func newScrubber(tenants []Tenant) *scrubber {
	seen := map[string]bool{}
	add := func(secret string) {
		if secret = strings.TrimSpace(secret); len(secret) >= minSecretSize {
			for _, form := range formsOf(secret) {
				seen[form] = true
			}
		}
	}
	for i := range tenants {
		t := &tenants[i]
		for _, e := range t.Endpoints {
			add(string(e.APIKey))
			for name, values := range e.Header {
				for _, v := range values {
					if looksSecret(name) {
						add(v)
						if _, token, ok := strings.Cut(v, " "); ok {
							add(token)
						}
					}
				}
			}
			if u, err := url.Parse(e.URL); err == nil {
				queryPairs(u.RawQuery, func(_, name, value string) {
					if slices.Contains(harmlessQueries, strings.ToLower(name)) {
						return
					}
					add(value)
					if decoded, err := url.QueryUnescape(value); err == nil {
						add(decoded)
					}
					if decoded, err := url.PathUnescape(value); err == nil {
						add(decoded)
					}
				})
			}
		}
		for name, v := range t.Body {
			if text, ok := v.(string); ok && looksSecret(name) {
				add(text)
			}
		}
	}
	s := &scrubber{grams: map[string]struct{}{}}
	for form := range seen {
		s.forms = append(s.forms, form)
		for i := 0; i+gramSize <= len(form); i++ {
			s.grams[form[i:i+gramSize]] = struct{}{}
		}
	}
	// Longest first: a credential that begins with another must not leave its tail.
	slices.SortFunc(s.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range s.forms {
		pairs = append(pairs, form, redacted)
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

var percentCode = regexp.MustCompile(`%[0-9A-F]{2}`)

func formsOf(secret string) []string {
	percent := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	lower := percentCode.ReplaceAllStringFunc(percent, strings.ToLower)
	all := "%" + strings.ReplaceAll(fmt.Sprintf("% X", secret), " ", "%")
	ascii := ""
	for _, unit := range utf16.Encode([]rune(secret)) {
		if unit < 0x80 {
			ascii += string(rune(unit))
		} else {
			ascii += fmt.Sprintf("\\u%04x", unit)
		}
	}
	quoted := fmt.Sprintf("%q", secret)
	forms := []string{
		secret, percent, lower, all, url.QueryEscape(secret), url.PathEscape(secret),
		jsonText(secret), strings.ReplaceAll(jsonText(secret), "/", `\/`), ascii, quoted[1 : len(quoted)-1],
		html.EscapeString(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	if len(secret) >= gramSize { // a short one in another case may be a word
		forms = append(forms, strings.ToLower(secret), strings.ToUpper(secret))
	}
	// Within a longer text base64 depends on the credential's offset; characters shared with neighbours are left out.
	for before := range 3 {
		padded := append(make([]byte, before), secret...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(padded)
			if whole := (len(padded) - len(padded)%3) / 3 * 4; before == 0 {
				forms = append(forms, text, text[:whole])
			} else {
				forms = append(forms, text[before+1:max(whole, before+1)])
			}
		}
	}
	return slices.DeleteFunc(forms, func(f string) bool { return len(f) < minSecretSize })
}

// jsonText is the content of a JSON string with the value s, with the escapes of encoding/json.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(b[1 : len(b)-1])
}

// clean removes credentials, and fragments of them, from free text.
func (s *scrubber) clean(text string) string {
	if len(s.forms) == 0 {
		return text
	}
	text = s.replacer.Replace(text)
	var b strings.Builder
	kept := 0 // up to here text is in b, or was removed
	for i := 0; i+gramSize <= len(text); {
		if _, found := s.grams[text[i:i+gramSize]]; !found {
			i++
			continue
		}
		end := i + gramSize
		for at := i + 1; at <= end && at+gramSize <= len(text); at++ {
			if _, found := s.grams[text[at:at+gramSize]]; found {
				end = at + gramSize
			}
		}
		b.WriteString(text[kept:i])
		b.WriteString(redacted)
		kept, i = end, end
	}
	b.WriteString(text[kept:])
	return s.cleanEnd(b.String())
}

// cleanEnd removes the beginning of a credential with which a text ends because it was cut there.
func (s *scrubber) cleanEnd(text string) string {
	for _, form := range s.forms {
		for n := min(len(form)-1, len(text), gramSize); n >= minSecretSize; n-- {
			if strings.HasSuffix(text, form[:n]) {
				return text[:len(text)-n] + redacted
			}
		}
	}
	return text
}

// cleanValue cleans every text in a value that is to be encoded as JSON, and removes fields named like a credential.
func (s *scrubber) cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.clean(v)
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = s.clean(v[i])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.cleanValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if text, ok := field.(string); ok && text != "" && looksSecret(name) {
				field = redacted
			}
			out[s.clean(name)] = s.cleanValue(field)
		}
		return out
	}
	return v
}

// cleanMap is cleanValue for a map, which may be nil.
func (s *scrubber) cleanMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	return s.cleanValue(m).(map[string]any)
}

const redacted = "[redacted]"

// Secret is a credential. It prints, formats and marshals as "[redacted]"; convert it to string to use it.
type Secret string

// Format writes "[redacted]" under every verb, nothing for an empty secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.shown()) }

// MarshalText returns the same text as Format.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown()), nil }

func (s Secret) shown() string {
	if s == "" {
		return ""
	}
	return redacted
}

// credentialWords are parts of header, field and query names: their values are taken for credentials.
var credentialWords = []string{
	"auth", "key", "token", "secret", "cookie", "passw", "passphrase", "pwd", "credential", "sig", "jwt", "bearer",
	"session", "code",
}

func looksSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
}

// harmlessQueries are names in a URL's query with values that are no credentials; all others are taken for such.
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

// safeURL is the URL without the parts that are, or may be, credentials.
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
