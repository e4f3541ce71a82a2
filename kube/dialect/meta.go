package dialect

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reader reads keys off a pod and its controllers and keeps which it was asked for: the others in the dialect's domains have no
// effect, and are told. The first object that has a key counts.
type Reader struct {
	from                []*metav1.ObjectMeta
	labels, annotations map[string]bool // keys that were asked for
	refused             []string
}

// NewReader reads the objects in the order given.
func NewReader(from ...*metav1.ObjectMeta) *Reader {
	return &Reader{from: from, labels: make(map[string]bool), annotations: make(map[string]bool)}
}

// Label and Annotation are the value under the key, trimmed, "" for none.
func (r *Reader) Label(key string) string {
	r.labels[key] = true
	return r.first(func(o *metav1.ObjectMeta) string { return o.Labels[key] })
}

func (r *Reader) Annotation(key string) string {
	r.annotations[key] = true
	return r.first(func(o *metav1.ObjectMeta) string { return o.Annotations[key] })
}

// Peek is the value of the label, which does not count as read.
func (r *Reader) Peek(key string) string {
	return r.first(func(o *metav1.ObjectMeta) string { return o.Labels[key] })
}

// Either is the annotation, or without one the label.
func (r *Reader) Either(key string) string {
	label := r.Label(key)
	if v := r.Annotation(key); v != "" {
		return v
	}
	return label
}

// Ignore says that the keys ask for nothing: the project writes them itself.
func (r *Reader) Ignore(keys ...string) {
	for _, key := range keys {
		r.labels[key], r.annotations[key] = true, true
	}
}

// Any says whether one of the objects has a key in the domains.
func (r *Reader) Any(domains []string) bool {
	for _, o := range r.from {
		if o == nil {
			continue
		}
		for _, keys := range []map[string]string{o.Labels, o.Annotations} {
			for key := range keys { //archtest:any-order it asks whether there is one
				if Within(key, domains) {
					return true
				}
			}
		}
	}
	return false
}

// Tell says of something that it has no effect.
func (r *Reader) Tell(what string) { r.refused = append(r.refused, what) }

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

// Unread are the keys in the domains that nobody asked for, and what was refused. A label does not stand for an annotation of the
// same key, nor the other way round.
func (r *Reader) Unread(domains []string) []string {
	out := slices.Clone(r.refused)
	stray := func(keys map[string]string, read, other map[string]bool, as string) {
		for key := range keys { //archtest:any-order the keys are sorted below
			switch {
			case read[key] || !Within(key, domains):
			case other[key]:
				out = append(out, key+" as "+as)
			default:
				out = append(out, key)
			}
		}
	}
	for _, o := range r.from {
		if o == nil {
			continue
		}
		stray(o.Labels, r.labels, r.annotations, "a label: it is an annotation")
		stray(o.Annotations, r.annotations, r.labels, "an annotation: it is a label")
	}
	return few(out)
}

// Keys are those in the domains that the pod or its controllers have, but for those in others, and of the keys named those that they have.
func (p *Pod) Keys(domains, others, named []string) []string {
	r := NewReader(&p.ObjectMeta)
	for i := range p.Owners {
		r.from = append(r.from, &p.Owners[i].Meta)
	}
	out := slices.DeleteFunc(r.Unread(domains), func(key string) bool { return Within(key, others) })
	for _, key := range named {
		if !Within(key, domains) && r.Either(key) != "" {
			out = append(out, key)
		}
	}
	return out
}

// Within says whether the key is in one of the domains, or below it.
func Within(key string, domains []string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}
