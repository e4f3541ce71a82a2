package inspect

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/inspect/mask"
)

// masked stands where a secret was, or might have been.
const masked = mask.Mask

// cleaner takes out of objects and texts what is not known to be needed (keep.go): structure, numbers, names of objects
// and of their kinds stay; of texts, what mask leaves. It is not for several goroutines.
type cleaner struct {
	text   *mask.Masker // of messages, logs and everything that is not known
	loose  *mask.Masker // of programs for the API server, which mean nothing in part
	fields map[string]bool
	kinds  map[string]fieldKind
	masks  map[string]string // for values of labels
	names  map[string]bool   // values of identities that were judged
}

// fieldKind is what a field of the name holds.
type fieldKind int

const (
	someField fieldKind = iota
	envField
	commandField
)

// kind of a field, by its name alone.
func (c *cleaner) kind(key string) fieldKind {
	k, ok := c.kinds[key]
	if !ok {
		switch {
		case envFields.MatchString(key):
			k = envField
		case commandFields.MatchString(key):
			k = commandField
		}
		c.kinds[key] = k
	}
	return k
}

// newCleaner knows the names in the facts: they may be in texts. Strict is for bundles whose names are redacted: no word
// leaves that is not one of Kubernetes' and schedulers' own.
func newCleaner(f *facts.Facts, strict bool) *cleaner {
	found := namesIn(f)
	names := found.all()
	return &cleaner{
		masks: found.masks(),
		text:  &mask.Masker{Names: names, Strict: strict}, loose: &mask.Masker{Names: names},
		fields: make(map[string]bool), kinds: make(map[string]fieldKind), names: make(map[string]bool),
	}
}

// hides says whether what stands in a field of the name is taken for a secret.
func (c *cleaner) hides(key string) bool {
	hides, ok := c.fields[key]
	if !ok {
		hides = (mask.Sensitive(key) || strings.HasSuffix(strings.ToLower(key), "login")) && !plainFields[key]
		c.fields[key] = hides
	}
	return hides
}

// object cleans the object in place.
func (c *cleaner) object(o map[string]any) {
	meta, _ := o["metadata"].(map[string]any)
	if o["kind"] == "ConfigMap" && meta["namespace"] == autoscalerNamespace && meta["name"] == autoscalerConfigMap {
		c.autoscaler(o)
	} else {
		delete(o, "data")
	}
	c.tree("", o)
}

// autoscaler keeps what the cluster-autoscaler says of itself, and nothing else that is in its ConfigMap.
func (c *cleaner) autoscaler(o map[string]any) {
	data, _ := o["data"].(map[string]any)
	status, _ := data["status"].(string)
	delete(o, "data")
	if status != "" {
		defer func() { o["data"] = map[string]any{"status": c.text.Text(status)} }()
	}
}

// tree cleans the value and all that is in it. What is under a key that does not belong there is taken away.
func (c *cleaner) tree(key string, v any) any {
	switch v := v.(type) {
	case string:
		return c.leaf(key, v)
	case []any:
		for i := range v {
			v[i] = c.tree(key, v[i])
		}
		return v
	case map[string]any:
		c.object1(key, v)
		return v
	}
	return v
}

// object1 cleans the fields of an object that stands under the key.
func (c *cleaner) object1(under string, m map[string]any) {
	if kind, _ := m["kind"].(string); strings.Contains(kind, "Secret") {
		c.contents(m)
	}
	named, _ := m["name"].(string)
	if named == "" {
		named, _ = m["key"].(string)
	}
	secret := named != "" && hasValue(m) && mask.Sensitive(named)
	about, _ := m["key"].(string)
	labelled := about != "" && (m["operator"] != nil || m["effect"] != nil) && isName(about) // a requirement, a taint or a toleration
	for key, value := range m {
		switch {
		case gone[key] || key == "" || len(key) > 317 || c.secretKey(under, key):
			delete(m, key)
		case under != "" && secret && valueOf[key] && !labelled:
			m[key] = masked
		case labelled && key == "value" && isText(value):
			m[key] = c.label(about, value.(string))
		case labelled && key == "values" && isList(value):
			for i, item := range value.([]any) {
				if s, ok := item.(string); ok {
					value.([]any)[i] = c.label(about, s)
				} else {
					value.([]any)[i] = c.tree(key, item)
				}
			}
		default:
			if m[key] = c.field(under, key, value); m[key] == nil {
				delete(m, key)
			}
		}
	}
}

// contents masks what a Secret, or what makes one, has as its data.
func (c *cleaner) contents(m map[string]any) {
	for key, value := range m {
		inner, ok := value.(map[string]any)
		switch {
		case ok && key == "data":
			m[key] = c.hidden(inner)
		case ok:
			c.contents(inner)
		}
	}
}

func hasValue(m map[string]any) bool {
	for key := range m {
		if valueOf[key] {
			return true
		}
	}
	return false
}

// valueOf are fields that hold the value of what the field beside them names.
var valueOf = map[string]bool{"value": true, "values": true, "val": true, "v": true, "content": true, "default": true, "data": true, "text": true, "stringValue": true}

// secretKey says whether a key is no name of a field, of a label or of a resource: it may be the secret itself.
func (c *cleaner) secretKey(under, key string) bool {
	known, ok := c.names["\x00"+key]
	if !ok {
		known = !fieldName.MatchString(key) || mask.Looks(key) || !c.loose.Names[key] && !hardware(key) && (c.loose.Find(keyWords.Replace(key)) || c.loose.Find(key))
		c.names["\x00"+key] = known
	}
	return known
}

// keyWords parts a key into words. A key is judged by its words and as a whole: a secret in groups has none that is odd by
// itself.
var keyWords = strings.NewReplacer("/", " ", "_", " ", "-", " ", ".", " ")

var fieldName = regexp.MustCompile(`^[A-Za-z0-9_./:$@ -]+$`)

// field cleans what stands under the key of an object that itself stands under another.
func (c *cleaner) field(under, key string, value any) any {
	switch {
	case under == "annotations" || key == "annotations" && isMap(value):
		if m, ok := value.(map[string]any); ok && key == "annotations" {
			c.annotations(m)
			if len(m) == 0 {
				return nil
			}
			return m
		}
	case amounts[under]:
		if s, ok := value.(string); ok && isQuantity(s) {
			return s
		}
	case labelFields[under]:
		if s, ok := value.(string); ok {
			return c.label(key, s)
		}
	case c.kind(key) == envField:
		return c.env(value)
	case c.kind(key) == commandField && !isObject(value):
		return c.command(value)
	}
	if c.hides(key) {
		return c.hidden(value)
	}
	return c.tree(key, value)
}

func isText(v any) bool { _, ok := v.(string); return ok }

func isList(v any) bool { _, ok := v.([]any); return ok }

func isMap(v any) bool { _, ok := v.(map[string]any); return ok }

// isObject is for fields like exec: {command: [...]}.
func isObject(v any) bool {
	m, ok := v.(map[string]any)
	return ok && m["command"] != nil
}

// hidden masks all that is in the value and keeps its form, so that it can still be read: numbers become 0.
func (c *cleaner) hidden(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return v
		}
		return masked
	case json.Number:
		return json.Number("0")
	case []any:
		for i := range v {
			v[i] = c.hidden(v[i])
		}
	case map[string]any:
		for key := range v {
			if key != "name" && key != "key" && key != "namespace" && key != "optional" {
				v[key] = c.hidden(v[key])
			} else {
				v[key] = c.tree(key, v[key])
			}
		}
	}
	return v
}

// isName says whether the text can be a name, an image or a time.
func isName(s string) bool {
	if s == "" || len(s) > 317 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case i > 0 && strings.IndexByte("._:/@+-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// isDigital says whether the text begins like a number.
func isDigital(s string) bool {
	return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '-' || s[0] == '+')
}

var (
	quantity = regexp.MustCompile(`^[+-]?[0-9.]{1,20}(?:[eE][+-]?\d{1,3}|[numkKMGTPE]i?)?$`)
)

func isQuantity(s string) bool {
	if !isDigital(s) || !quantity.MatchString(s) {
		return false
	}
	_, err := resource.ParseQuantity(s)
	return err == nil
}

// leaf cleans a string under the key.
func (c *cleaner) leaf(key, s string) string {
	switch {
	case key == "expression" || key == "celExpression": // a program of the API server's, which says what is looked for
		return c.loose.Text(s)
	case isDigital(s) && (moment.MatchString(s) || isQuantity(s) && len(s) < 16):
		return s
	case enumerated[key] && enumeration.MatchString(s):
		return c.loose.Text(s)
	case key == "image" && !reference.MatchString(s): // no image has such a name, so it may be anything
		return c.maybeJSON(s)
	case key == "key" && !c.text.Names[s] && c.secretKey("", s): // not that of a label, a taint or a Secret
		return c.maybeJSON(s)
	case nameFields[key] && isName(s), key == "apiVersion" && groupVersion.MatchString(s):
		return c.identity(s)
	case identities[key] && isName(s):
		return c.loose.Text(s)
	}
	return c.maybeJSON(s)
}

// reference is the name of an image: only a registry, a tag and a digest have capitals.
var reference = regexp.MustCompile(`^(?:[A-Za-z0-9.-]{1,253}(?::\d{1,5})?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]{3,10}:[0-9a-f]{32,128})?$`)

// groupVersion is an API group and a version of it. Groups may have words in them that announce a secret in a text, as
// external-secrets.io does.
var groupVersion = regexp.MustCompile(`^[a-z0-9.-]{1,120}/v[0-9]+(?:(?:alpha|beta)[0-9]+)?$`)

// identity is a name, unless it looks like a credential.
func (c *cleaner) identity(s string) string {
	looks, ok := c.names[s]
	if !ok {
		looks = mask.Looks(s)
		c.names[s] = looks
	}
	if looks {
		return c.text.Text(s)
	}
	return s
}

// label is the value of a label: a name, which other objects select by.
func (c *cleaner) label(key, value string) string {
	switch {
	case value == "":
		return value
	case c.hides(key[strings.LastIndexByte(key, '/')+1:]) && !hashes[key]:
		return masked
	case hardware(key) || hashes[key] || c.text.Names[value] || numbered.MatchString(value):
		return c.identity(value)
	case c.masks[value] != "":
		return c.masks[value]
	}
	return c.loose.Text(value)
}

// numbered is the mask of a label's value.
var numbered = regexp.MustCompile(`^` + masked + `-\d+$`)

// hashes are labels whose values are made of hashes and UIDs by Kubernetes.
var hashes = map[string]bool{
	"pod-template-hash": true, "controller-revision-hash": true, "pod-template-generation": true, "controller-uid": true, "batch.kubernetes.io/controller-uid": true, "jobset.sigs.k8s.io/job-key": true, "jobset.sigs.k8s.io/jobset-uid": true,
	"leaderworkerset.sigs.k8s.io/group-key": true, "leaderworkerset.sigs.k8s.io/template-revision-hash": true, "statefulset.kubernetes.io/pod-name": true, "job-name": true, "batch.kubernetes.io/job-name": true, "ray.io/cluster": true, "ray.io/identifier": true, "kueue.x-k8s.io/podset": true,
	"karpenter.sh/nodepool": true, "kubernetes.io/hostname": true, "kubernetes.io/metadata.name": true, v1alpha1.LabelPool: true,
}

// env drops the values of environment variables, in whatever form they are, but for those that are known to be harmless.
func (c *cleaner) env(v any) any {
	switch v := v.(type) {
	case string:
		return masked
	case []any:
		for i, item := range v {
			switch item := item.(type) {
			case map[string]any:
				c.variable(item)
			case string:
				name, _, _ := strings.Cut(item, "=")
				v[i] = c.leaf("", name) + "=" + masked
			default:
				v[i] = c.hidden(item)
			}
		}
	case map[string]any:
		for name, value := range v {
			if s, ok := value.(string); !ok || !keptEnv(name, s) {
				v[name] = masked
			}
			if c.secretKey("env", name) {
				delete(v, name)
			}
		}
	}
	return v
}

// variable is one of a list of environment variables.
func (c *cleaner) variable(m map[string]any) {
	name, _ := m["name"].(string)
	for key, value := range m {
		switch key {
		case "name":
			m[key] = c.leaf("name", name)
		case "valueFrom":
			m[key] = c.tree(key, value)
		case "value":
			if s, ok := value.(string); !ok || mask.Sensitive(name) || !keptEnv(name, s) {
				delete(m, key)
			}
		default:
			delete(m, key)
		}
	}
}

// annotations keeps those that are known.
func (c *cleaner) annotations(m map[string]any) {
	for key, value := range m {
		s, ok := value.(string)
		switch {
		case !keptAnnotation(key) || !ok || c.secretKey("annotations", key):
			delete(m, key)
		case mask.Sensitive(key):
			m[key] = masked
		case amountKeys[key] && amount.MatchString(s): // a card of 183359 MiB is no PIN
		case c.text.Names[s]:
			m[key] = c.identity(s)
		default:
			m[key] = c.maybeJSON(s)
		}
	}
}

// maybeJSON cleans JSON by its fields, and anything else as text.
func (c *cleaner) maybeJSON(s string) string {
	if s == "" || (s[0] != '{' && s[0] != '[' && s[0] != '"') {
		return c.text.Text(s)
	}
	v, err := decode([]byte(s))
	if err != nil {
		return c.text.Text(s)
	}
	switch v := v.(type) {
	case string:
		if inner := c.maybeJSON(v); inner != v {
			return inner
		}
		return c.text.Text(s)
	default:
		b, err := canonical(c.tree("json", v)) // under a key: no object of the API begins here
		if err != nil {
			return masked
		}
		return string(b)
	}
}

// command cleans a command line, in words or in one.
func (c *cleaner) command(v any) any {
	switch v := v.(type) {
	case string:
		return c.line(v)
	case []any:
		after := ""
		for i, item := range v {
			s, ok := item.(string)
			if !ok {
				v[i] = c.tree("command", item)
				continue
			}
			v[i] = c.word(s, after)
			after = s
		}
	case map[string]any: // options of a program by their names
		for key, value := range v {
			s, ok := value.(string)
			switch {
			case gone[key] || c.secretKey("", key):
				delete(v, key)
			case ok && !isQuantity(s) || mask.Sensitive(key):
				v[key] = masked
			case !ok: // no options of a program, but what only is called like them
				if v[key] = c.field("", key, value); v[key] == nil {
					delete(v, key)
				}
			}
		}
	}
	return v
}

// word cleans one word of a command line, which may be a whole line itself; after is the one before it.
func (c *cleaner) word(s, after string) string {
	switch {
	case s == "" || programs[s]:
		return s
	case flagOnly.MatchString(after) && mask.Sensitive(after), len(after) == 2 && after[0] == '-' && after != "-c" && after != "-m":
		return masked
	case strings.ContainsAny(s, " \t\n"):
		return c.line(s)
	case schedulerFlag.MatchString(after) && isName(s):
		return c.leaf("schedulerName", s)
	}
	return c.token(s)
}

// line cleans a command line in one text.
func (c *cleaner) line(s string) string {
	if launchers.MatchString(s) {
		return c.text.Text(s)
	}
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = c.token(w)
	}
	words = slices.CompactFunc(words, func(a, b string) bool { return a == masked && b == masked })
	return strings.Join(words, " ")
}

var (
	flagOnly  = regexp.MustCompile(`^--?[A-Za-z][A-Za-z_-]{0,40}$`)
	flagValue = regexp.MustCompile(`^(--?[A-Za-z][A-Za-z_.-]{0,40})=(.*)$`)
	argNumber = regexp.MustCompile(`^\d{1,5}(?:\.\d{1,3})?$`)
	// schedulerFlag is followed by what pods have as schedulerName: which workload serves them cannot be told without it.
	schedulerFlag = regexp.MustCompile(`^--?scheduler[_-]?[nN]ames?$`)
)

// token is a word of a command line without spaces: a program, a flag, a number, or masked.
func (c *cleaner) token(s string) string {
	base := s[strings.LastIndexByte(s, '/')+1:]
	switch at := flagValue.FindStringSubmatch(s); {
	case programs[s]:
		return s
	case programs[base] && !mask.Looks(s):
		return c.text.Text(s)
	case at != nil && argNumber.MatchString(at[2]) && !mask.Sensitive(at[1]):
		return s
	case at != nil && schedulerFlag.MatchString(at[1]) && isName(at[2]):
		return at[1] + "=" + c.leaf("schedulerName", at[2])
	case at != nil && !c.text.Strict:
		return c.text.Text(at[1]) + "=" + masked
	case flagOnly.MatchString(s) && (len(s) == 2 || s[1] == '-') && !c.text.Strict:
		return c.text.Text(s)
	case argNumber.MatchString(s):
		return s
	}
	return masked
}

// canonical is the value as JSON in one line, keys sorted.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
