package main

import "strconv"

// mentions are the texts of objects, keys and values, with the kinds of objects that have them: what two objects must agree
// on is in both. Nothing is known here about what a field means.
type mentions map[string]map[string]bool

func mentionsOf(objects []object) mentions {
	m := mentions{}
	for _, o := range objects {
		m.add(o.kind.name, fresh(o.body).Object)
	}
	return m
}

func (m mentions) add(kind string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			m.note(kind, k)
			m.add(kind, item)
		}
	case []any:
		for _, item := range v {
			m.add(kind, item)
		}
	case string:
		m.note(kind, v)
	}
}

func (m mentions) note(kind, text string) {
	if m[text] == nil {
		m[text] = map[string]bool{}
	}
	m[text][kind] = true
}

// links says whether a field may matter to other objects: it is no metadata, or objects of another kind have its key or its
// value, too.
func (m mentions) links(kind string, p path, v any) bool {
	if p[0] != "metadata" {
		return true
	}
	own := mentions{}
	own.note(kind, p[len(p)-1])
	own.add(kind, v)
	for text := range own {
		if _, err := strconv.ParseFloat(text, 64); err == nil || text == "true" || text == "false" || text == "labels" || text == "annotations" {
			continue
		}
		if len(m[text]) > 1 {
			return true
		}
	}
	return false
}
