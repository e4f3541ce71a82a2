package cluster

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// images is which nodes have which container images. Like labels, images that no node has are in no table: pods may name as many
// as they like.
type images struct {
	Nodes   int                       // with a spec
	Edition uint64                    // goes up when an image comes to its first node, or leaves its last
	on      map[string]map[*Node]bool // by image
}

// move enters the images that the node has got, and forgets those that it had.
func (s *images) move(n *Node, old, got *api.Node) {
	var had, has []api.Image
	if old != nil {
		s.Nodes--
		had = old.Images
	}
	if got != nil {
		s.Nodes++
		has = got.Images
	}
	if slices.Equal(had, has) {
		return
	}
	for _, im := range had {
		if _, stays := got.Image(im.Name); stays {
			continue
		}
		//mutate: index-image-left
		delete(s.on[im.Name], n)
		if len(s.on[im.Name]) == 0 {
			delete(s.on, im.Name)
			s.Edition++
		}
	}
	for _, im := range has {
		nodes := s.on[im.Name]
		if nodes == nil {
			nodes = make(map[*Node]bool)
			if s.on == nil {
				s.on = make(map[string]map[*Node]bool)
			}
			s.on[im.Name] = nodes
			s.Edition++
		}
		nodes[n] = true
	}
}

// On are the nodes that have the image, to be read.
func (s *images) On(name string) map[*Node]bool { return s.on[name] }

// ImagesOf is the images of the gang's pods that some node has, with the number of all their images: what tells classes apart by
// them; "": no node has any. Members of a gang are placed by the images of the first by key that has any, so that those which fit alike
// are counted together.
func (m *Model) ImagesOf(g *Gang) string {
	if len(m.Images.on) == 0 {
		return ""
	}
	var first *Pod
	for _, p := range g.All() {
		if len(p.Images) > 0 && (first == nil || p.Key < first.Key) {
			first = p
		}
	}
	if first == nil {
		return ""
	}
	var names []string
	for _, name := range first.Images {
		if m.Images.on[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return strconv.Itoa(len(first.Images)) + "\x00" + strings.Join(names, "\x00")
}
