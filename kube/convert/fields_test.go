package convert

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How a field is handled, in the words of docs/conformance.md.
const (
	byEngine = "engine"    // what the engine is given depends on it
	byWaits  = "waits"     // it keeps the pod from the engine, or says which nodes its volumes allow
	byTold   = "told"      // it has no effect, which is said on the pod
	byOthers = "others"    // admission, a controller or the kubelet makes something of it that is read, or acts on it
	byNobody = "no effect" // it has no effect on scheduling in Kubernetes
)

// field is a row of the table.
type field struct {
	path, how, where, test string
}

// table is that of docs/conformance.md: a row may list several fields.
func table(t *testing.T) []field {
	t.Helper()
	page, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n## Every field of a pod\n")
	if !ok {
		t.Fatal("docs/conformance.md has no section about every field")
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var out []field
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			out = append(out, field{path[1], strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
		}
	}
	return out
}

// under are the fields of a type by name, through pointers and lists.
func under(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[metav1.LabelSelector]() || t == reflect.TypeFor[resource.Quantity]() {
		return nil
	}
	out := make(map[string]reflect.Type)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			for name, of := range under(f.Type) {
				out[name] = of
			}
			continue
		}
		out[name] = f.Type
	}
	return out
}

// Every field of a pod's spec has a row in docs/conformance.md, or all the fields below it have, and every row is of a field
// that exists. A new release of Kubernetes fails here until somebody has read what its new fields do.
func TestEveryFieldIsClassified(t *testing.T) {
	rows := make(map[string]field)
	for _, f := range table(t) {
		if rows[f.path].path != "" {
			t.Errorf("%s has two rows", f.path)
		}
		rows[f.path] = f
	}
	seen := make(map[string]bool)
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		if _, ok := rows[path]; ok {
			seen[path] = true
			return
		}
		fields := under(of)
		below := slices.ContainsFunc(table(t), func(f field) bool { return strings.HasPrefix(f.path, path+".") })
		if len(fields) == 0 || !below {
			t.Errorf("%s has no row: read what the scheduler has to make of it, and say so in docs/conformance.md", path)
			return
		}
		for name, of := range fields {
			walk(path+"."+name, of)
		}
	}
	walk("spec", reflect.TypeFor[corev1.PodSpec]())
	for path := range rows {
		if !seen[path] {
			t.Errorf("docs/conformance.md has %s, which is no field, or within one that has a row", path)
		}
	}
}

// The tests that the page names exist.
func TestFieldsNameTheirTests(t *testing.T) {
	for _, f := range table(t) {
		if f.test == "" {
			if f.how == byEngine || f.how == byWaits || f.how == byTold {
				t.Errorf("%s: no test is named", f.path)
			}
			continue
		}
		for _, name := range strings.Split(strings.ReplaceAll(f.test, "`", ""), ", ") {
			dir, test, _ := strings.Cut(name, ".")
			files, err := filepath.Glob("../../" + dir + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "func "+test+"(")
			}) {
				t.Errorf("%s: there is no test %s", f.path, name)
			}
		}
	}
}

// laden is a pod in which every list that the engine reads has an element.
func laden() *corev1.Pod {
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
	node := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}}}
	weighted := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	container := corev1.Container{
		Name: "c", Ports: []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: "TCP"}}, Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")},
	}
	sidecar := container
	sidecar.Name, sidecar.RestartPolicy = "s", ptr(corev1.ContainerRestartPolicyAlways)
	sidecar.Ports = []corev1.ContainerPort{{HostPort: 90, ContainerPort: 90, Protocol: "TCP"}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "db", "rev": "1", "x": "x"}},
		Spec: corev1.PodSpec{
			SchedulerName: "berth", Containers: []corev1.Container{container}, InitContainers: []corev1.Container{sidecar}, Priority: ptr(int32(0)),
			Tolerations: []corev1.Toleration{{Key: "a", Operator: "Equal", Value: "1", Effect: "NoSchedule"}},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{node}},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: node}},
				},
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{*term.DeepCopy()}, PreferredDuringSchedulingIgnoredDuringExecution: weighted},
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{*term.DeepCopy()}, PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{*weighted[0].DeepCopy()},
				},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Volumes:                   []corev1.Volume{{Name: "v"}},
		},
	}
}

// another is a value of a field that differs from that of laden, where not any value does.
var another = map[string]any{
	"restartPolicy": corev1.RestartPolicyAlways, "preemptionPolicy": ptr(corev1.PreemptNever), "protocol": corev1.ProtocolUDP,
	"effect": corev1.TaintEffectNoExecute, "whenUnsatisfiable": corev1.ScheduleAnyway, "nodeAffinityPolicy": ptr(corev1.NodeInclusionPolicyIgnore),
	"nodeTaintsPolicy": ptr(corev1.NodeInclusionPolicyHonor), "hostIP": "10.0.0.1", "hostPort": int32(81), "matchLabelKeys": []string{"rev"}, "mismatchLabelKeys": []string{"rev"},
	"nodeSelectorTerms": []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}}},
	"preference":        corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}},
	"requests":          list("cpu", "2"), "overhead": list("cpu", "2"), "limits": list("cpu", "2"), "resources": &corev1.ResourceRequirements{Requests: list("cpu", "7")}, "os": &corev1.PodOS{Name: "windows"}, "hostUsers": ptr(false),
	"activeDeadlineSeconds": ptr(int64(77)), "terminationGracePeriodSeconds": ptr(int64(77)), "priority": ptr(int32(7)), "weight": int32(7), "maxSkew": int32(7), "minDomains": ptr(int32(7)),
	"bindMountOptions": []string{"noexec"}, "schedulingGates": []corev1.PodSchedulingGate{{Name: "g"}}, "operator": corev1.TolerationOpExists,
	"schedulingGroup": &corev1.PodSchedulingGroup{PodGroupName: ptr("g")}, "containers[*].restartPolicy": ptr(corev1.ContainerRestartPolicyAlways),
}

// fill sets a value that is not the zero one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			v.Set(reflect.ValueOf(resource.MustParse("7")))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String && f.String() == "" {
				f.SetString("x")
			}
		}
	}
}

// set gives the field of the path another value, in the first element of each list.
func set(t *testing.T, v reflect.Value, path []string) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
			continue
		}
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		v = v.Index(0)
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if _, ok := under(f.Type)[path[0]]; ok {
				set(t, v.Field(i), path)
				return
			}
			continue
		}
		if name != path[0] {
			continue
		}
		if len(path) > 1 {
			set(t, v.Field(i), path[1:])
			return
		}
		if value, ok := another[name]; ok && reflect.TypeOf(value) == f.Type {
			v.Field(i).Set(reflect.ValueOf(value))
			return
		}
		fill(v.Field(i))
		return
	}
	t.Fatalf("no field %v", path)
}

// What the page says of a field is so: a field that the engine is said to see changes what it is given, one that is told of is
// told of, and one without effect changes nothing.
func TestFieldsDoWhatThePageSays(t *testing.T) {
	for _, f := range table(t) {
		var p *corev1.Pod
		var changes, tells bool
		for _, base := range []func(*corev1.PodSpec){ // some fields have an effect beside others alone
			func(s *corev1.PodSpec) { s.HostUsers = ptr(false) }, func(s *corev1.PodSpec) { s.HostNetwork = true }, func(*corev1.PodSpec) {},
		} {
			before := laden()
			base(&before.Spec)
			p = before.DeepCopy()
			set(t, reflect.ValueOf(&p.Spec), strings.Split(f.path, ".")[1:])
			changes = changes || !reflect.DeepEqual(Pod(before, Options{}), Pod(p, Options{}))
			tells = tells || !slices.Equal(Unheeded(before), Unheeded(p))
		}
		after := Pod(p, Options{})
		var ok bool
		switch f.how {
		case byEngine:
			ok = changes
		case byTold:
			ok = tells && !changes
		case byOthers, byNobody:
			ok = !changes && !tells
		case byWaits:
			ok = !Schedulable(p) || len(p.Spec.Volumes) > 0 && !changes
		default:
			t.Errorf("%s: %q is no way to handle a field", f.path, f.how)
			continue
		}
		if !ok {
			t.Errorf("%s: the page says %q, and it changes what the engine sees: %v, and is told of: %v (%s)", f.path, f.how, changes, tells, after.Invalid)
		}
		if Trim(p); !reflect.DeepEqual(after, Pod(p, Options{})) {
			t.Errorf("%s: Trim drops it", f.path)
		}
	}
}
