package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/submit/rule"
)

// altered are the fields of what was sent that are not as they were in what the API server would keep: dropped, because a feature gate
// is off or a webhook removes them, or changed. Fields that were added are defaults. Of lists whose items have names, those of one name
// are compared; of others, each item must be there.
func altered(sent, kept map[string]any, at string) []rule.Altered {
	var out []rule.Altered
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		if at == "" && (key == "status" || key == "apiVersion" || key == "kind" || key == "stringData") || at == "/metadata" && key != "labels" && key != "annotations" {
			continue
		}
		path := at + edit.Pointer(key)
		is, has := kept[key]
		if !has {
			if !empty(sent[key]) {
				out = append(out, rule.Altered{Path: path, Dropped: true})
			}
			continue
		}
		out = append(out, differs(sent[key], is, path)...)
	}
	return out
}

func differs(sent, kept any, at string) []rule.Altered {
	switch was := sent.(type) {
	case map[string]any:
		if now, ok := kept.(map[string]any); ok {
			return altered(was, now, at)
		}
	case []any:
		if now, ok := kept.([]any); ok {
			return items(was, now, at)
		}
	default:
		if same(sent, kept) {
			return nil
		}
	}
	if empty(sent) {
		return nil
	}
	return []rule.Altered{{Path: at, Was: text(sent), Now: text(kept)}}
}

func items(sent, kept []any, at string) (out []rule.Altered) {
	for i, s := range sent {
		path := fmt.Sprintf("%s/%d", at, i)
		name := nameIn(s)
		switch {
		case i < len(kept) && len(differs(s, kept[i], path)) == 0:
		case name != "":
			j := slices.IndexFunc(kept, func(k any) bool { return nameIn(k) == name })
			if j < 0 {
				out = append(out, rule.Altered{Path: path, Dropped: true})
				continue
			}
			out = append(out, differs(s, kept[j], path)...)
		case slices.ContainsFunc(kept, func(k any) bool { return len(differs(s, k, path)) == 0 }):
		case len(sent) == len(kept):
			out = append(out, differs(s, kept[i], path)...)
		default:
			out = append(out, rule.Altered{Path: path, Dropped: true})
		}
	}
	return out
}

func nameIn(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// empty says whether the API server leaves a value out anyway, as it is nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !empty(v) })
	case []any:
		return len(v) == 0
	case nil:
		return true
	}
	return reflect.ValueOf(v).IsZero()
}

// same says whether two values are one, however they are written: 1000m is 1, and so is "1".
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) || text(a) == text(b) {
		return true
	}
	x, err := resource.ParseQuantity(text(a))
	y, wrong := resource.ParseQuantity(text(b))
	return err == nil && wrong == nil && x.Cmp(y) == 0
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// inTree says whether the object has a value at the pointer.
func inTree(object any, pointer string) bool {
	at := object
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			var ok bool
			if at, ok = v[key]; !ok {
				return false
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return false
			}
			at = v[i]
		default:
			return false
		}
	}
	return true
}

// heard are the warnings that came with the answers to requests of one context.
type heard struct {
	mu    sync.Mutex
	texts []string
}

type heardKey struct{}

func listen(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.texts)
}

// warnings keeps the warnings of the API server, each once, for whoever made the request.
type warnings struct{}

func (warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	h, _ := ctx.Value(heardKey{}).(*heard)
	if h == nil || code != 299 || text == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.texts, text) {
		h.texts = append(h.texts, text)
	}
}
