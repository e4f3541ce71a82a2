package submit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// unheeded notes what the manifests ask for and Berth does not do: fields of other schedulers' objects, and keys of pods. What waits is
// in the model.
func (c *checker) unheeded() {
	for _, s := range c.subs {
		for _, text := range s.Vain {
			c.ask(s.item, s.Ref.String()+": "+text)
		}
		for _, p := range s.pods {
			for _, text := range c.full.model.Unheeded(keyOf(p)) {
				c.ask(s.item, s.Ref.String()+": "+text)
			}
		}
	}
	said := make(map[string]*dialect.Object)
	for _, o := range c.full.model.SpokenObjects() {
		said[o.Kind+" "+o.Namespace+"/"+o.Name] = o
	}
	for _, s := range c.subs { // what is made of an object asks for what the object does
		for _, made := range s.Also {
			kind := made.GetObjectKind().GroupVersionKind()
			if o := said[kind.Kind+"."+kind.Group+" "+made.GetNamespace()+"/"+made.GetName()]; o != nil {
				for _, text := range o.Unread {
					c.ask(s.item, s.Ref.String()+": "+text)
				}
			}
		}
	}
	c.keysAlone()
	for i := range c.items {
		for _, path := range withoutAmount(c.items[i].Object, "", 0) {
			c.ask(&c.items[i], refOf(c.items[i].Object, c.namespace).String()+": "+path+" (it has no value: none is asked for)")
		}
	}
	for i := range c.items {
		u := unstructured.Unstructured{Object: c.items[i].Object}
		kind := u.GroupVersionKind()
		for _, namespace := range []string{cmp.Or(u.GetNamespace(), c.namespace), ""} {
			o := said[kind.Kind+"."+kind.Group+" "+namespace+"/"+u.GetName()]
			if o == nil {
				continue
			}
			for _, text := range o.Unread {
				if key, ok := strings.CutPrefix(text, "metadata: "); ok && slices.ContainsFunc(c.vain[&c.items[i]], func(said string) bool { return strings.Contains(said, " "+key+" ") }) {
					continue // its pods say so too
				}
				c.ask(&c.items[i], refOf(c.items[i].Object, c.namespace).String()+": "+text)
			}
			if o.Problem != "" {
				c.ask(&c.items[i], refOf(c.items[i].Object, c.namespace).String()+": "+o.Problem)
			}
			break
		}
	}
}

// withoutAmount are the requests and limits below the path that name a resource and no amount of it, as in a line that somebody has yet to
// finish. The API server takes them for 0.
func withoutAmount(tree any, at string, depth int) (out []string) {
	if depth > 64 {
		return nil
	}
	switch v := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			path := strings.TrimPrefix(at+"."+key, ".")
			if list, ok := v[key].(map[string]any); ok && strings.HasSuffix(at, ".resources") && (key == "limits" || key == "requests") {
				for _, name := range slices.Sorted(maps.Keys(list)) {
					if list[name] == nil {
						out = append(out, path+"."+name)
					}
				}
				continue
			}
			out = append(out, withoutAmount(v[key], path, depth+1)...)
		}
	case []any:
		for i, item := range v {
			out = append(out, withoutAmount(item, fmt.Sprintf("%s[%d]", at, i), depth+1)...)
		}
	}
	return out
}

// keysAlone notes the keys for other schedulers on objects without pods that tell of them: namespaces, priority classes, and workloads
// that are suspended and that nothing lets in.
func (c *checker) keysAlone() {
	for i := range c.items {
		u := &unstructured.Unstructured{Object: c.items[i].Object}
		switch kind := u.GroupVersionKind().GroupKind().String(); {
		case kind == "Namespace", kind == "PriorityClass.scheduling.k8s.io":
			for _, text := range dialect.KeysThat(u, dialect.ForScheduler) {
				c.ask(&c.items[i], refOf(c.items[i].Object, c.namespace).String()+": "+text)
			}
		}
	}
	for _, s := range c.subs {
		if s.Idle == "" || s.Object == nil {
			continue
		}
		meta := metav1.ObjectMeta{Labels: s.Object.GetLabels(), Annotations: s.Object.GetAnnotations()}
		for _, d := range all.Dialects() {
			a, ok := d.(dialect.Admitter)
			if !ok || !c.spoken(d.Name()) {
				continue
			}
			if a.Queued(&meta) {
				if field, yes := facts.Suspended(s.Object); yes {
					c.ask(s.item, fmt.Sprintf("%s: it names a queue, and nobody sets %s to false: %s lets in Jobs, pods, and the objects that docs/from-%s.md lists", s.Ref, field, d.Name(), d.Name()))
				}
				continue
			}
			if t := d.Pod(&dialect.Pod{Pod: &corev1.Pod{ObjectMeta: meta}}, nowhere{}); t != nil {
				for _, text := range t.Unread {
					c.ask(s.item, s.Ref.String()+": "+text)
				}
			}
		}
	}
}

// nowhere is a world in which nothing is.
type nowhere struct{}

func (nowhere) Object(string, string, string) *dialect.Object { return nil }
func (nowhere) Objects(string, string) []*dialect.Object      { return nil }
func (nowhere) Priority(string) (int32, bool)                 { return 0, false }

// unspoken notes, where there is no cluster to be asked what it serves, objects and keys of dialects that Berth was not told to read.
func (c *checker) unspoken() {
	if !c.world.Bare {
		return
	}
	for _, d := range all.Dialects() {
		if c.spoken(d.Name()) {
			continue
		}
		for i := range c.items {
			u := unstructured.Unstructured{Object: c.items[i].Object}
			if slices.ContainsFunc(d.Kinds(), func(k dialect.Kind) bool { return k.Group == u.GroupVersionKind().Group }) {
				c.ask(&c.items[i], fmt.Sprintf("%s: it is not read without --dialect %s", refOf(c.items[i].Object, c.namespace), d.Name()))
			}
		}
		for _, s := range c.subs {
			keys := make(map[string]bool)
			for _, p := range s.pods {
				within(keys, p.Labels, d.Domains())
				within(keys, p.Annotations, d.Domains())
			}
			if s.Object != nil {
				within(keys, s.Object.GetLabels(), d.Domains())
				within(keys, s.Object.GetAnnotations(), d.Domains())
			}
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				if !slices.ContainsFunc(c.vain[s.item], func(text string) bool { return strings.Contains(text, key+" ") }) {
					c.ask(s.item, fmt.Sprintf("%s: %s (not read without --dialect %s)", s.Ref, key, d.Name()))
				}
			}
		}
	}
}

// spoken says whether the dialect is read.
func (c *checker) spoken(name string) bool {
	m, d := &c.world.Model, all.Find(name)
	return slices.Contains(m.Dialects, name) || d != nil && slices.ContainsFunc(d.SchedulerNames(), func(name string) bool { return slices.Contains(m.For, name) })
}

// mostVain bounds what is noted of one manifest.
const mostVain = 32

func (c *checker) ask(of *Item, text string) {
	if list := c.vain[of]; len(list) < mostVain && !slices.Contains(list, text) {
		c.vain[of] = append(list, text)
	}
}

// within adds the keys in the domains.
func within(to map[string]bool, keys map[string]string, domains []string) {
	for key := range keys { //archtest:any-order it fills a set
		if dialect.Within(key, domains) {
			to[key] = true
		}
	}
}
