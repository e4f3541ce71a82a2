package l4

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// missing is a ConfigMap or Secret, or a key in one, that a pod refers to and that does not exist.
type missing struct{ kind, name, key string }

func (m missing) String() string {
	if m.key != "" {
		return fmt.Sprintf("key %s of %s %s", m.key, m.kind, m.name)
	}
	return m.kind + " " + m.name
}

var (
	missingObject = regexp.MustCompile(`(?i)\b(configmap|secret) "([a-z0-9.-]+)" not found`)
	missingKey    = regexp.MustCompile(`couldn't find key (\S+) in (ConfigMap|Secret) [a-z0-9.-]+/([a-z0-9.-]+)`)
	missingItem   = regexp.MustCompile(`volume "([a-z0-9.-]+)" : .*references non-existent (?:config|secret|configmap) key: (\S+)`)
)

// saysNotFound is how the API server says that there is no object of a name.
var saysNotFound = regexp.MustCompile(`([A-Za-z0-9-]+(?:\.[a-z0-9.-]+)) "([^"]{1,253})" not found`)

// namedByVolume is the object that the message says does not exist, where a volume of the pod names it to its driver, as those of secret
// stores do: the pod's author, and not the storage, has to act.
func namedByVolume(p *corev1.Pod, message string) (field, object string, ok bool) {
	m := saysNotFound.FindStringSubmatch(message)
	if m == nil {
		return "", "", false
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.CSI == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(v.CSI.VolumeAttributes)) {
			if v.CSI.VolumeAttributes[key] == m[2] {
				return fmt.Sprintf("spec.volumes[%q].csi.volumeAttributes[%q]", v.Name, key), m[1] + " " + m[2], true
			}
		}
	}
	return "", "", false
}

// parseMissing reads the kubelet's words: of a container's variables, or of a volume of the pod.
func parseMissing(p *corev1.Pod, text string) (missing, bool) {
	if m := missingKey.FindStringSubmatch(text); m != nil {
		return missing{kind: m[2], name: m[3], key: m[1]}, true
	}
	if m := missingObject.FindStringSubmatch(text); m != nil {
		return missing{kind: properKind(m[1]), name: m[2]}, true
	}
	if m := missingItem.FindStringSubmatch(text); m != nil {
		for _, v := range p.Spec.Volumes {
			switch {
			case v.Name != m[1]:
			case v.ConfigMap != nil:
				return missing{kind: "ConfigMap", name: v.ConfigMap.Name, key: m[2]}, true
			case v.Secret != nil:
				return missing{kind: "Secret", name: v.Secret.SecretName, key: m[2]}, true
			case v.Projected != nil: // the words do not say which of its sources lacks the key
				for _, r := range inVolume(&v, "") {
					if slices.Contains(r.keys, m[2]) {
						return missing{kind: r.kind, name: r.name, key: m[2]}, true
					}
				}
			}
		}
	}
	return missing{}, false
}

func properKind(word string) string {
	if strings.EqualFold(word, "secret") {
		return "Secret"
	}
	return "ConfigMap"
}

// keys are the keys of the missing object that the pod names.
func (m missing) keys(p *corev1.Pod) (out []string) {
	if m.key != "" {
		return []string{m.key}
	}
	for _, r := range references(p) {
		if r.kind == m.kind && r.name == m.name {
			out = append(out, r.keys...)
		}
	}
	return out
}

// named says whether pods of the spec need what is missing.
func (m missing) named(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(references(&corev1.Pod{Spec: *s}), func(r reference) bool {
		return r.kind == m.kind && r.name == m.name && (m.key == "" || slices.Contains(r.keys, m.key))
	})
}

// make is the command that makes what is missing, with values to be filled in.
func (m missing) make(p *corev1.Pod) string {
	keys := m.keys(p)
	if m.key != "" {
		field := map[string]string{"ConfigMap": "data", "Secret": "stringData"}[m.kind]
		return fmt.Sprintf(`kubectl patch %s %s -n %s --type=merge -p '{%q:{%q:"VALUE"}}'`, strings.ToLower(m.kind), m.name, p.Namespace, field, m.key)
	}
	line := fmt.Sprintf("kubectl create configmap %s -n %s", m.name, p.Namespace)
	if m.kind == "Secret" {
		line = fmt.Sprintf("kubectl create secret generic %s -n %s", m.name, p.Namespace)
	}
	for _, k := range keys {
		line += fmt.Sprintf(" --from-literal=%s=VALUE", k)
	}
	return line
}

// makerOf is an object of another project that is to make what is missing, and what it says is wrong: it says so under a target or a
// secretName, as ExternalSecrets and Certificates do, or it is sealed under the same name. nil for none.
func makerOf(c *check.Case, m missing) (*unstructured.Unstructured, facts.Condition) {
	for _, kind := range slices.Sorted(maps.Keys(c.Foreign)) {
		for _, u := range c.Foreign[kind] {
			if u.GetNamespace() != c.Pod.Namespace || !isToMake(u, m.name) {
				continue
			}
			for _, k := range facts.ConditionsOf(u) {
				if k.Bad() {
					return u, k
				}
			}
			return u, facts.Condition{}
		}
	}
	return nil, facts.Condition{}
}

// isToMake says whether the object is to make a Secret or ConfigMap of the name.
func isToMake(u *unstructured.Unstructured, name string) bool {
	for _, path := range [][]string{{"spec", "target", "name"}, {"spec", "secretName"}, {"spec", "destination", "name"}, {"spec", "template", "metadata", "name"}, {"spec", "secretObjectName"}} {
		if s, _, _ := unstructured.NestedString(u.Object, path...); s == name {
			return true
		}
	}
	return u.GetName() == name && strings.Contains(u.GetKind(), "Secret")
}

// rootCA is the ConfigMap that the control plane keeps in every namespace.
const rootCA = "kube-root-ca.crt"

// givenBy says who gives pods the missing object where their author does not: the control plane has one in every namespace, and
// what changes pods when they are created has them refer to its own. "": the author names it.
func givenBy(c *check.Case, m missing) (by, advice string) {
	if m.kind == "ConfigMap" && m.name == rootCA { // pkg/controller/certificates/rootcacertpublisher of Kubernetes
		return "kube-controller-manager keeps it in every namespace, and the pod's token needs it",
			"Look at kube-controller-manager: its root-ca-cert-publisher does not run, or has no --root-ca-file. One that is made by hand lacks the certificate."
	}
	t := facts.TemplateFor(c.Owner(), c.Pod)
	if t == nil || !c.Exists {
		return "", ""
	}
	if b, err := json.Marshal(t); err != nil || strings.Contains(string(b), fmt.Sprintf("%q", m.name)) {
		return "", ""
	}
	return fmt.Sprintf("the template of %s does not name it: something added it to the pod when it was created", facts.RefTo(c.Owner())),
		"Ask who runs the webhook that changes pods in this namespace: what it has them refer to has to be there."
}

// reference is a place in a pod that names a ConfigMap or a Secret, and the keys that it takes from it; none: all of them.
type reference struct {
	kind, name string
	keys       []string
	at         string // a JSON pointer to the name
}

// references are all of the pod but those of optional things.
func references(p *corev1.Pod) (out []reference) {
	add := func(kind, name, at string, optional *bool, keys ...string) {
		if !ptr.Deref(optional, false) {
			out = append(out, reference{kind, name, keys, at})
		}
	}
	for _, k := range life.ContainersOf(p) {
		for i, e := range k.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add("ConfigMap", r.Name, k.Path("env", strconv.Itoa(i), "valueFrom", "configMapKeyRef", "name"), r.Optional, r.Key)
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				add("Secret", r.Name, k.Path("env", strconv.Itoa(i), "valueFrom", "secretKeyRef", "name"), r.Optional, r.Key)
			}
		}
		for i, e := range k.EnvFrom {
			if r := e.ConfigMapRef; r != nil {
				add("ConfigMap", r.Name, k.Path("envFrom", strconv.Itoa(i), "configMapRef", "name"), r.Optional)
			}
			if r := e.SecretRef; r != nil {
				add("Secret", r.Name, k.Path("envFrom", strconv.Itoa(i), "secretRef", "name"), r.Optional)
			}
		}
	}
	for i := range p.Spec.Volumes {
		out = append(out, inVolume(&p.Spec.Volumes[i], edit.Pointer("spec", "volumes", strconv.Itoa(i)))...)
	}
	return out
}

// inVolume are the references of a volume that is written at the pointer, those of its sources if it is projected.
func inVolume(v *corev1.Volume, at string) (out []reference) {
	add := func(kind, name, at string, optional *bool, items []corev1.KeyToPath) {
		r := reference{kind: kind, name: name, at: at}
		for _, i := range items {
			r.keys = append(r.keys, i.Key)
		}
		if !ptr.Deref(optional, false) {
			out = append(out, r)
		}
	}
	switch {
	case v.ConfigMap != nil:
		add("ConfigMap", v.ConfigMap.Name, at+"/configMap/name", v.ConfigMap.Optional, v.ConfigMap.Items)
	case v.Secret != nil:
		add("Secret", v.Secret.SecretName, at+"/secret/secretName", v.Secret.Optional, v.Secret.Items)
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			at := at + edit.Pointer("projected", "sources", strconv.Itoa(i))
			if s.ConfigMap != nil {
				add("ConfigMap", s.ConfigMap.Name, at+"/configMap/name", s.ConfigMap.Optional, s.ConfigMap.Items)
			}
			if s.Secret != nil {
				add("Secret", s.Secret.Name, at+"/secret/name", s.Secret.Optional, s.Secret.Items)
			}
		}
	}
	return out
}

// used is the edit that names what a running pod of the namespace uses in place of what is missing: it exists. It is meant for
// sure where the two are written nearly alike, and probably where pods use nothing else of the kind. "" for none.
func used(c *check.Case, m missing) (e edit.Edit, other, user string) {
	if m.key != "" {
		return e, "", ""
	}
	names, keys := make(map[string]string), make(map[string][]string)
	for _, p := range c.Pods {
		if p.Namespace != c.Pod.Namespace || p.Name == c.Pod.Name || facts.StateOf(p) != facts.Running || facts.Unsettled(p) {
			continue
		}
		for _, r := range references(p) {
			if r.kind == m.kind && r.name != m.name {
				names[r.name], keys[r.name] = p.Name, append(keys[r.name], r.keys...)
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	at := slices.IndexFunc(sorted, func(name string) bool { return place.Misspelt(m.name, name) })
	if at < 0 {
		sorted = slices.DeleteFunc(sorted, func(name string) bool { return name == rootCA }) // every pod has it, with its token
	}
	if at < 0 && len(sorted) == 1 {
		at, e.Assumes = 0, "that is the one that was meant"
	}
	if at < 0 {
		return e, "", ""
	}
	other = sorted[at]
	for _, r := range references(c.Pod) {
		if r.kind != m.kind || r.name != m.name {
			continue
		}
		if slices.ContainsFunc(r.keys, func(key string) bool { return !slices.Contains(keys[other], key) }) {
			return edit.Edit{}, "", "" // nothing shows that it has the key
		}
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: r.at, Value: other})
	}
	if len(e.Ops) == 0 {
		return edit.Edit{}, "", ""
	}
	e.Side, e.Cost = edit.Workload, edit.CostWord
	e.Text = fmt.Sprintf("refer to %s %s, which pod %s uses, in place of %s", m.kind, other, names[other], m.name)
	return e, other, names[other]
}
