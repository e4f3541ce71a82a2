package convert

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// BindingOf is the request that carries out the placement. The UID makes it fail for another pod of the same
// name. The API server merges the annotation, which says which GPUs were chosen, into the pod in the same
// write; where no agent on the node honours it, it is a wish.
func BindingOf(pl engine.Placement) *corev1.Binding {
	namespace, name, _ := strings.Cut(pl.Pod, "/")
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(pl.UID)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pl.Node},
	}
	if len(pl.Devices) > 0 {
		names := make([]string, len(pl.Devices))
		for i, id := range pl.Devices {
			names[i] = strings.TrimPrefix(id, pl.Node+"/") // as the node calls them
		}
		list, _ := json.Marshal(names) // strings always can be
		b.Annotations = map[string]string{v1alpha1.KeyWantedGPUs: string(list)}
	}
	return b
}
