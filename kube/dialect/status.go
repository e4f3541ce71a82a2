package dialect

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// StatusOf is a copy of the object's status, empty for none.
func StatusOf(o *unstructured.Unstructured) map[string]any {
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		return make(map[string]any)
	}
	return runtime.DeepCopyJSON(status)
}

// Tell puts into the status the condition NotUnderstood, or takes it back: what of the object has no effect, and what is wrong with it.
func Tell(status map[string]any, unread []string, problem string, at time.Time) {
	var texts []string
	if problem != "" {
		texts = append(texts, "It is not carried out: "+problem)
	}
	if len(unread) > 0 {
		texts = append(texts, "Without effect: "+strings.Join(unread, "; "))
	}
	text := strings.Join(texts, ". ")
	list, _ := status["conditions"].([]any)
	kept := make([]any, 0, len(list)+1)
	since := at
	for _, c := range list {
		if Text(c, "type") != v1alpha1.NotUnderstood {
			kept = append(kept, c)
		} else if t := Time(c, "lastTransitionTime"); !t.IsZero() && Text(c, "message") == text {
			since = t
		}
	}
	if text != "" {
		kept = append(kept, map[string]any{
			"type": v1alpha1.NotUnderstood, "status": "True", "reason": "FieldsWithoutEffect", "message": text, "lastTransitionTime": since.UTC().Format(time.RFC3339),
		})
	}
	if len(kept) == 0 {
		delete(status, "conditions")
		return
	}
	status["conditions"] = kept
}
