package facts

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// spoken is what objects of other schedulers say, by kind and namespace/name, as Berth reads them where it speaks their dialect.
type spoken struct {
	dialects []dialect.Dialect // that are spoken
	objects  map[string]map[string]*dialect.Object
	classes  map[string]int32
}

func (s *spoken) Object(kind, namespace, name string) *dialect.Object {
	return s.objects[kind][namespace+"/"+name]
}

func (s *spoken) Objects(kind, namespace string) (out []*dialect.Object) {
	for _, key := range slices.Sorted(maps.Keys(s.objects[kind])) {
		if o := s.objects[kind][key]; namespace == "" || o.Namespace == namespace {
			out = append(out, o)
		}
	}
	return out
}

func (s *spoken) Priority(class string) (int32, bool) {
	n, ok := s.classes[class]
	return n, ok
}

func readSpoken(f *Facts) *spoken {
	s := &spoken{objects: make(map[string]map[string]*dialect.Object), classes: make(map[string]int32)}
	for _, c := range f.PriorityClasses {
		s.classes[c.Name] = c.Value
	}
	names := f.ours()
	for _, d := range all.Dialects() {
		answered := slices.ContainsFunc(d.SchedulerNames(), func(n string) bool { return slices.Contains(names, n) })
		if !answered && !slices.Contains(f.Speaks, d.Name()) && (len(d.SchedulerNames()) > 0 || len(f.Foreign[d.Kinds()[0].Name()]) == 0) {
			continue
		}
		s.dialects = append(s.dialects, d)
		for range 2 { // what objects say may depend on others
			for _, k := range d.Kinds() {
				s.read(d, k, f)
			}
		}
	}
	return s
}

func (s *spoken) read(d dialect.Dialect, k dialect.Kind, f *Facts) {
	for _, u := range f.Foreign[k.Name()] {
		o := d.Read(u, s)
		o.Kind, o.Namespace, o.Name, o.UID = k.Name(), u.GetNamespace(), u.GetName(), u.GetUID()
		if s.objects[o.Kind] == nil {
			s.objects[o.Kind] = make(map[string]*dialect.Object)
		}
		s.objects[o.Kind][o.Namespace+"/"+o.Name] = &o
	}
}

// Spoken is how Berth reads the pod in the dialect of another scheduler; nil: it speaks none, or that has nothing to say of the pod.
func (f *Facts) Spoken(p *corev1.Pod) *dialect.Terms {
	s := Derive(f, readSpoken)
	if len(s.dialects) == 0 {
		return nil
	}
	pod := &dialect.Pod{Pod: p}
	for at, up := f.Controller(p), 0; at != nil && up < 2; at, up = f.Controller(at), up+1 {
		if o, ok := convert.OwnerOf(at); ok && o.Namespace == p.Namespace {
			pod.Owners = append(pod.Owners, dialect.Owner{
				Kind: o.Kind, Name: o.Name, UID: o.UID, Meta: metav1.ObjectMeta{Labels: o.Labels, Annotations: o.Annotations}, Pods: o.Pods, InTurn: o.InTurn, By: o.By, Coupled: o.Coupled,
			})
		}
	}
	names := f.ours()
	for _, d := range s.dialects {
		if !slices.Contains(names, p.Spec.SchedulerName) && !slices.Contains(f.Speaks, d.Name()) {
			continue
		}
		if t := d.Pod(pod, s); t != nil {
			return t
		}
	}
	return nil
}
