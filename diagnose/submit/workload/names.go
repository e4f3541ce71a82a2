package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

// toFill are the ways in which authors of templates and examples mark what is still to be filled in, each with how that is done. They tell
// why a value is wrong, and are looked for in values that are wrong anyway: <a> is a fine value of an environment variable.
var toFill = []struct {
	mark *regexp.Regexp
	how  string
}{
	{regexp.MustCompile(`\{\{|\{%`), "render the template first, and check what comes out"},
	{regexp.MustCompile(`\$\{[^}]*\}|\$\(?[A-Za-z_][A-Za-z0-9_]*`), "fill it in, with envsubst for instance, and check what comes out"},
	{regexp.MustCompile(`<[^<>]*>|^\.\.\.$|…|%[A-Z_]+%|@[A-Z_]+@|__[A-Z_]+__|\[[A-Z][A-Z _-]*\]`), "write a value there"},
	{regexp.MustCompile(`(?i)(replace|change|fill|insert|put)[-_ ]?(me|this|with|in|your|here)\b|\byour[-_ ]|\btodo\b|x{3,}`), "write a value there"},
	{regexp.MustCompile(`\b[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b|^[A-Z]{3,}$`), "write a value there"},
}

// wrongText says of a value that its field does not allow that it is still to be filled in, if it looks like it, or else what would be allowed.
func wrongText(at, value, allowed string) error {
	shown := value
	if len(shown) > 100 {
		shown = shown[:100] + "..."
	}
	for _, f := range toFill {
		if f.mark.MatchString(value) {
			return fmt.Errorf("%s: %s is still to be filled in (%s)", at, shown, f.how)
		}
	}
	return fmt.Errorf("%s: %q is not allowed there: %s", at, shown, allowed)
}

const (
	nameRule  = "a name has lower case letters, digits, - and . alone, and letters or digits at its ends"
	labelRule = "a name has lower case letters, digits and - alone, and letters or digits at its ends"
	valueRule = "a value of a label has at most 63 letters, digits, -, _ and ., and letters or digits at its ends"
	keyRule   = "a key of a label has at most 63 letters, digits, -, _ and ., after a domain and a slash if there is one"
)

func dnsName(at, value string) error {
	if value != "" && len(validation.IsDNS1123Subdomain(value)) > 0 {
		return wrongText(at, value, nameRule)
	}
	return nil
}

func dnsLabel(at, value string) error {
	if value != "" && len(validation.IsDNS1123Label(value)) > 0 {
		return wrongText(at, value, labelRule)
	}
	return nil
}

// invalidLabels is about labels, and selectors that have their shape.
func invalidLabels(at string, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(validation.IsQualifiedName(key)) > 0 {
			return wrongText(at, key, keyRule)
		}
		if len(validation.IsValidLabelValue(labels[key])) > 0 {
			return wrongText(at+"."+key, labels[key], valueRule)
		}
	}
	return nil
}

// freeNames are API groups whose objects may have names that no host could have.
var freeNames = []string{"rbac.authorization.k8s.io"}

// InvalidMeta is about what every object has: its name, namespace and labels.
func InvalidMeta(o facts.Object) error {
	var err error
	if !slices.Contains(freeNames, kindOf(o).Group) {
		err = firstOf(dnsName("metadata.name", o.GetName()), dnsName("metadata.generateName", strings.TrimSuffix(o.GetGenerateName(), "-")))
	}
	return firstOf(err, dnsLabel("metadata.namespace", o.GetNamespace()), invalidLabels("metadata.labels", o.GetLabels()), invalidKeys("metadata.annotations", o.GetAnnotations()))
}

// invalidKeys is about the keys of annotations, which are compared in lower case.
func invalidKeys(at string, annotations map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			return wrongText(at, key, keyRule)
		}
	}
	return nil
}

// invalidNames is about the names in a pod's spec, and what has to have their shape.
func invalidNames(at string, s *corev1.PodSpec) error {
	for _, n := range []struct{ field, value string }{
		{"serviceAccountName", s.ServiceAccountName}, {"priorityClassName", s.PriorityClassName}, {"runtimeClassName", ptr.Deref(s.RuntimeClassName, "")},
	} {
		if err := dnsName(at+"."+n.field, n.value); err != nil {
			return err
		}
	}
	for i := range s.Volumes {
		if err := dnsLabel(fmt.Sprintf("%s.volumes[%d].name", at, i), s.Volumes[i].Name); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		field string
		all   []corev1.Container
	}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
		for i := range list.all {
			if err := dnsLabel(fmt.Sprintf("%s.%s[%d].name", at, list.field, i), list.all[i].Name); err != nil {
				return err
			}
		}
	}
	return invalidLabels(at+".nodeSelector", s.NodeSelector)
}

// reference is how images are called (distribution/reference): a host, which has a dot, a port or a capital in it, a path in lower case, and a tag
// or a digest.
var reference = regexp.MustCompile(`^(?:(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)

// Unpullable looks at the part's pods for images that no kubelet can even look for, while the API server takes any text; nil: there is none.
func Unpullable(p *Part) *Fault {
	spec := &p.Pods[0].Spec
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if image := list[i].Image; image != "" && !reference.MatchString(image) {
				err := wrongText("image of container "+list[i].Name, image, "a kubelet refuses it as InvalidImageName")
				return &Fault{Cause: invalidManifest, Message: err.Error(), Taken: true}
			}
		}
	}
	return nil
}

// mistyped is a value of another type than its field has.
type mistyped struct{ field, value, want string }

func (m *mistyped) Error() string {
	return fmt.Sprintf("%s is %s, and not as the kind has it (%s)", m.field, m.value, m.want)
}

// explained is why the object cannot be read, in terms of the values in it: what is still to be filled in, and which quantity is none.
func explained(err error, object map[string]any) error {
	var m *mistyped
	at := ""
	if errors.As(err, &m) {
		at = m.field
	} else if !errors.Is(err, resource.ErrFormatWrong) && !strings.Contains(err.Error(), resource.ErrFormatWrong.Error()) {
		return err
	}
	if found := (&culprit{field: at}).in(object, "", ""); found != nil {
		return found
	}
	return err
}

// culprit looks for the value that could not be read: one under limits and the like that is no quantity or, where the field is known, a text
// in that field.
type culprit struct{ field string }

func (c *culprit) in(v any, shown, plain string) error {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := c.in(v[key], strings.TrimPrefix(shown+"."+key, "."), strings.TrimPrefix(plain+"."+key, ".")); err != nil {
				return err
			}
		}
	case []any:
		for i := range v {
			if err := c.in(v[i], fmt.Sprintf("%s[%d]", shown, i), plain); err != nil {
				return err
			}
		}
	case string:
		within := strings.Split(plain, ".")
		amount := len(within) > 1 && slices.ContainsFunc(within[:len(within)-1], func(key string) bool {
			return key == "limits" || key == "requests" || key == "capacity" || key == "overhead"
		}) || within[len(within)-1] == "sizeLimit"
		switch _, err := resource.ParseQuantity(v); {
		case c.field == "" && amount && err != nil:
			return wrongText(shown, v, "want a quantity, such as 2 or 16Gi")
		case c.field != "" && (plain == c.field || strings.HasSuffix(plain, "."+c.field)) && looksUnfilled(v):
			return wrongText(shown, v, "")
		}
	}
	return nil
}

func looksUnfilled(v string) bool {
	return slices.ContainsFunc(toFill, func(f struct {
		mark *regexp.Regexp
		how  string
	}) bool {
		return f.mark.MatchString(v)
	})
}

// wrong words an error of encoding/json in terms of the manifest.
func wrong(err error) error {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		want := e.Type.String()
		if strings.HasPrefix(want, "struct") || strings.HasPrefix(want, "workload.") {
			want = "object"
		}
		return &mistyped{e.Field, e.Value, want}
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
