package convert

import (
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

// leastImage is the size below which an image counts for nothing by itself in Kubernetes (imagelocality, minThreshold). Smaller
// ones would be most of what a node has.
const leastImage = 23 << 20

// imagesOn are the images that a node has, under all names that the kubelet tells. It tells the 50 largest (nodeStatusMaxImages), each
// by up to five names. Names are shared between nodes.
func imagesOn(n *corev1.Node) []engine.Image {
	var out []engine.Image
	for _, im := range n.Status.Images {
		for _, name := range im.Names {
			if name != "" && len(name) <= MaxNameBytes && im.SizeBytes >= leastImage && im.SizeBytes <= engine.MaxAmount {
				out = append(out, engine.Image{Name: unique.Make(name).Value(), Bytes: im.SizeBytes})
			}
		}
	}
	if len(out) > MaxNodeImages {
		slices.SortStableFunc(out, func(a, b engine.Image) int {
			if a.Bytes != b.Bytes {
				return int(max(-1, min(b.Bytes-a.Bytes, 1)))
			}
			return strings.Compare(a.Name, b.Name)
		})
		out = out[:MaxNodeImages]
	}
	slices.SortStableFunc(out, func(a, b engine.Image) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b engine.Image) bool { return a.Name == b.Name })
}

// imagesOf are the images of a pod's containers, init containers and image volumes, one for each, as nodes name them.
func imagesOf(p *corev1.Pod) []string {
	var out []string
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			out = append(out, imageName(list[i].Image))
		}
	}
	for i := range p.Spec.Volumes {
		if im := p.Spec.Volumes[i].Image; im != nil {
			out = append(out, imageName(im.Reference))
		}
	}
	if !slices.ContainsFunc(out, func(name string) bool { return name != "" }) {
		return nil
	}
	return out
}

// imageName is the name with the tag that is meant where there is none; "" for one that is too long to be read.
func imageName(name string) string {
	if name == "" || len(name) > MaxNameBytes {
		return ""
	}
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	return unique.Make(name).Value()
}
