package inspect

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// masked stands where a secret was, or might have been.
const masked = "MASKED"

// cleaner takes out of objects and texts what might be secret. It rather takes too much than too little: what it
// keeps of environment variables is what diagnosis reads. It is not for several goroutines.
type cleaner struct {
	known  map[string]string // texts that were cleaned already: most come again and again
	fields map[string]bool   // names of fields that were judged: whether they are sensitive
}

func newCleaner() *cleaner {
	return &cleaner{known: make(map[string]string), fields: make(map[string]bool)}
}

// hides says whether what stands in a field of the name is taken for a secret.
func (c *cleaner) hides(key string) bool {
	hides, ok := c.fields[key]
	if !ok {
		hides = sensitive(key) && !plainKeys[key]
		c.fields[key] = hides
	}
	return hides
}

// gone are fields that hold programs, certificates or other people's bookkeeping, and that nobody diagnoses by.
var gone = []string{"managedFields", "caBundle", "userData", "customData", "runtimeEnvYAML", "runtimeEnv", "stringData", "binaryData"}

// object cleans the object in place.
func (c *cleaner) object(o map[string]any) {
	if o["kind"] == "ConfigMap" {
		meta, _ := o["metadata"].(map[string]any)
		if meta["namespace"] != autoscalerNamespace || meta["name"] != autoscalerConfigMap {
			delete(o, "data")
		}
	} else {
		delete(o, "data")
	}
	c.tree(o)
}

// tree cleans the value and all that is in it.
func (c *cleaner) tree(v any) any {
	switch v := v.(type) {
	case string:
		return c.text(v)
	case []any:
		for i := range v {
			v[i] = c.tree(v[i])
		}
	case map[string]any:
		for _, key := range gone {
			delete(v, key)
		}
		for key, value := range v {
			v[key] = c.field(key, value)
		}
	}
	return v
}

// field cleans what stands under the key.
func (c *cleaner) field(key string, value any) any {
	switch value := value.(type) {
	case string:
		switch {
		case key == "expression": // a program of the API server's, which says what is looked for
			return value
		case c.hides(key):
			return masked
		}
	case []any:
		switch key {
		case "env":
			return c.env(value)
		case "command", "args":
			return c.words(value)
		case "httpHeaders":
			return headers(value)
		}
	case map[string]any:
		if key == "annotations" {
			c.annotations(value)
			return value
		}
	}
	return c.tree(value)
}

// plainKeys are fields that are named like secrets and hold none: the key of a taint or of a label.
var plainKeys = map[string]bool{"key": true, "topologyKey": true, "labelKey": true}

// told are the environment variables whose values diagnosis needs, by how their names start.
var told = []string{"NVIDIA_", "CUDA_", "WORLD_SIZE", "MASTER_", "NPROC", "RANK"}

func (c *cleaner) env(list []any) []any {
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _ := m["name"].(string)
		if !slices.ContainsFunc(told, func(start string) bool { return strings.HasPrefix(name, start) }) || sensitive(name) {
			delete(m, "value")
		}
		c.tree(m)
	}
	return list
}

func headers(list []any) []any {
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			m["value"] = masked
		}
	}
	return list
}

// annotations drops copies of whole objects, which would bring back what was taken out, and cleans JSON as such.
func (c *cleaner) annotations(m map[string]any) {
	for key, value := range m {
		s, ok := value.(string)
		switch {
		case !ok:
			m[key] = c.tree(value)
		case key == corev1.LastAppliedConfigAnnotation, strings.Contains(key, "last-applied"), strings.Contains(key, "last-handled"), strings.HasSuffix(key, "/applied"):
			delete(m, key)
		case sensitive(key):
			m[key] = masked
		default:
			m[key] = c.maybeJSON(s)
		}
	}
}

// maybeJSON cleans JSON by its fields, and anything else as text.
func (c *cleaner) maybeJSON(s string) string {
	if s == "" || (s[0] != '{' && s[0] != '[') {
		return c.text(s)
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return c.text(s)
	}
	b, err := canonical(c.tree(v))
	if err != nil {
		return masked
	}
	return string(b)
}

// words cleans the words of a command line: a secret may be the word after its flag.
func (c *cleaner) words(list []any) []any {
	hide := false
	for i, item := range list {
		s, ok := item.(string)
		if !ok {
			list[i] = c.tree(item)
			continue
		}
		switch {
		case hide && !strings.HasPrefix(s, "-"):
			list[i], hide = masked, false
		default:
			list[i] = c.text(s)
			hide = strings.HasPrefix(s, "-") && !strings.ContainsAny(s, "= ") && sensitive(s) || s == "-u" || s == "--user"
		}
	}
	return list
}

// texts that are secrets by their look, whoever wrote them.
var tokens = regexp.MustCompile(strings.Join([]string{
	`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
	`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`,
	`\bgh[pousr]_[A-Za-z0-9]{16,}`, `\bgithub_pat_[A-Za-z0-9_]{16,}`, `\bglpat-[A-Za-z0-9_-]{16,}`,
	`\bhf_[A-Za-z0-9]{16,}`, `\bsk-[A-Za-z0-9_-]{16,}`, `\bnvapi-[A-Za-z0-9_-]{16,}`, `\bxox[abeprs]-[A-Za-z0-9-]{8,}`, `\bAIza[0-9A-Za-z_-]{30,}`,
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`,
}, "|"))

var (
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"'?#]+@`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)([ =:]+)["']?[A-Za-z0-9._~+/=-]{6,}`)
	// pair is a name and a value beside it: name=value, "name": "value", --name value.
	pair = regexp.MustCompile(`(--?)?([A-Za-z][A-Za-z0-9_.-]*)(\\?["']?\s*[:=]\s*\\?["']?|\s+["']?)([^\s"'\\,;&}\])]+)`)
)

// text cleans what people and programs wrote: logs, messages, command lines.
func (c *cleaner) text(s string) string {
	if len(s) < 6 {
		return s
	}
	if out, ok := c.known[s]; ok {
		return out
	}
	out := tokens.ReplaceAllString(s, masked)
	if strings.Contains(out, "@") {
		out = userinfo.ReplaceAllString(out, "${1}"+masked+"@")
	}
	if strings.ContainsAny(out, " =:") {
		out = bearer.ReplaceAllString(out, "${1}${2}"+masked)
		out = pairs(out)
	}
	c.known[s] = out
	return out
}

// pairs masks the values of names that are sensitive. Between words that only stand side by side, the first has to be
// a flag: "the secret was not found" is no secret.
func pairs(s string) string {
	var b strings.Builder
	for s != "" {
		at := pair.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		part := func(i int) string { return s[max(0, at[2*i]):max(0, at[2*i+1])] }
		name, between, value := part(2), part(3), part(4)
		flag, joined := part(1) != "", strings.ContainsAny(between, "=:")
		hide := sensitive(name) && (flag || joined) && (flag || strings.Contains(between, "=") || !prose(name, value))
		switch {
		case hide && strings.EqualFold(value, "bearer"), value == masked, !hide:
			b.WriteString(s[:at[8]]) // what looks like a value may be the next name
			s = s[at[8]:]
			if value == masked {
				b.WriteString(masked)
				s = s[len(masked):]
			}
		default:
			b.WriteString(s[:at[8]])
			b.WriteString(masked)
			s = s[at[9]:]
		}
	}
	b.WriteString(s)
	return b.String()
}

// prose says whether "name: value" may as well be a sentence: "couldn't find key: x", "require authorization: denied".
func prose(name, value string) bool {
	switch strings.ToLower(name) {
	case "key":
		return true
	case "auth", "authorization", "signature":
		return len(value) < 20 && !strings.ContainsAny(value, "0123456789")
	}
	return false
}

// sensitiveLast end the names of secrets, and sensitiveAny are in them anywhere.
var (
	sensitiveLast = []string{"password", "passwd", "passphrase", "pass", "pwd", "token", "secret", "key", "apikey", "credential", "credentials", "bearer", "auth", "authorization", "signature", "sig", "cookie"}
	sensitiveAny  = []string{"password", "passwd", "passphrase", "secret", "apikey", "credential"}
)

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// sensitive says whether what the name stands for may be a secret. "tokenizer" and "max-tokens" do not.
func sensitive(name string) bool {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	parts := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	if len(parts) == 0 {
		return false
	}
	if slices.Contains(sensitiveLast, parts[len(parts)-1]) {
		return true
	}
	if strings.HasSuffix(parts[len(parts)-1], "name") || strings.HasSuffix(parts[len(parts)-1], "ref") {
		return false
	}
	return slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(sensitiveAny, p) })
}

// canonical is the value as JSON in one line, keys sorted.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
