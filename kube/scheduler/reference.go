package scheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/convert"
)

// workloadKey undoes what referenceOf does to a workload's key.
func workloadKey(namespace, name string) string {
	kind, rest, _ := strings.Cut(name, ".")
	if kind == "pod" {
		return namespace + "/" + rest
	}
	return namespace + "/" + kind + "/" + rest
}

// referenceOf names the workload of the key, which is namespace/pod or namespace/kind/name, and whoever made all
// its pods.
func referenceOf(key string, pods []*corev1.Pod) answer.Reference {
	namespace, rest, _ := strings.Cut(key, "/")
	kind, name, ok := strings.Cut(rest, "/")
	if !ok {
		kind, name = "pod", rest
	}
	return answer.Reference{Namespace: namespace, Name: answer.Named(kind, name), Owner: maker(pods)}
}

func (s *scheduler) reference(key string) answer.Reference {
	return referenceOf(key, s.feed.PodsOf(key))
}

// maker is the controller that made all the pods, nil if there is none or several.
func maker(pods []*corev1.Pod) *answer.Owner {
	var one *answer.Owner
	for _, p := range pods {
		o := ownerOf(p)
		if o == nil || one != nil && *one != *o {
			return nil
		}
		one = o
	}
	return one
}

// ownerOf is the pod's controller; of a Deployment's pods, the Deployment.
func ownerOf(p *corev1.Pod) *answer.Owner {
	c := convert.ControllerOf(p)
	if c == nil {
		return nil
	}
	if hash := convert.HashOf(p); c.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(c.Name, "-"+hash); ok {
			return &answer.Owner{Kind: "Deployment", Name: name}
		}
	}
	return &answer.Owner{Kind: c.Kind, Name: c.Name}
}
