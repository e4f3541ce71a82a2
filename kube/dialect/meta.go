package dialect

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reader reads keys off a pod and its controllers and keeps which it was asked for: the others in the dialect's domains have no
// effect, and are told. The first object that has a key counts.
type Reader struct {
	from    []*metav1.ObjectMeta
	read    map[string]bool
	refused []string
}

// NewReader reads the objects in the order given.
func NewReader(from ...*metav1.ObjectMeta) *Reader {
	return &Reader{from: from, read: make(map[string]bool)}
}

// Label and Annotation are the value under the key, trimmed, "" for none.
func (r *Reader) Label(key string) string {
	r.read[key] = true
	return r.first(func(o *metav1.ObjectMeta) string { return o.Labels[key] })
}

func (r *Reader) Annotation(key string) string {
	r.read[key] = true
	return r.first(func(o *metav1.ObjectMeta) string { return o.Annotations[key] })
}

// Either is the annotation, or without one the label.
func (r *Reader) Either(key string) string {
	if v := r.Annotation(key); v != "" {
		return v
	}
	return r.Label(key)
}

// Ignore says that the keys ask for nothing: the project writes them itself.
func (r *Reader) Ignore(keys ...string) {
	for _, key := range keys {
		r.read[key] = true
	}
}

// Refuse says that a key which was read has a value without effect.
func (r *Reader) Refuse(key, value, want string) {
	if len(value) > 63 {
		value = value[:63] + "..."
	}
	r.refused = append(r.refused, key+" is "+value+": want "+want)
}

func (r *Reader) first(get func(*metav1.ObjectMeta) string) string {
	for _, o := range r.from {
		if o == nil {
			continue
		}
		if v := strings.TrimSpace(get(o)); v != "" {
			return v
		}
	}
	return ""
}

// Unread are the keys in the domains that nobody asked for, and what was refused.
func (r *Reader) Unread(domains []string) []string {
	out := slices.Clone(r.refused)
	for _, o := range r.from {
		if o == nil {
			continue
		}
		for _, keys := range []map[string]string{o.Labels, o.Annotations} {
			//archtest:any-order the keys are sorted below
			for key := range keys {
				if !r.read[key] && Within(key, domains) {
					out = append(out, key)
				}
			}
		}
	}
	return few(out)
}

// Within says whether the key is in one of the domains, or below it.
func Within(key string, domains []string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}
