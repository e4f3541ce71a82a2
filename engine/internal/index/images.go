package index

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// A node that has images of a pod is preferred, as Kubernetes' ImageLocality has it: by their size times the share of nodes that
// have them, so that the first node with an image does not draw all its pods. The share is exact up to 63 nodes and of six
// significant bits above, so that nodes are looked at again when it has changed by some part of itself.

// Bounds of what images count for, in bytes: less than the first for all together is nothing, more than the second for each is the most.
const (
	leastImage = 23 << 20
	mostImage  = 1000 << 20
)

// classImage is an image of a class's pods that some node has.
type classImage struct {
	name  string
	share float64 // of nodes that have it
}

// setImages reads ClassKey.Images.
func (c *Class) setImages(key string) {
	if key == "" {
		return
	}
	parts := strings.Split(key, "\x00")
	c.pulled, _ = strconv.ParseInt(parts[0], 10, 64)
	for _, name := range parts[1:] {
		c.images = append(c.images, classImage{name: name})
	}
}

// rateImages brings the shares of nodes up to date, and returns the images of which it is another.
func (x *Index) rateImages(c *Class) (moved []string) {
	for i := range c.images {
		im := &c.images[i]
		all := coarse(int64(x.m.Images.Nodes))
		if share := float64(coarse(int64(len(x.m.Images.On(im.name))))) / float64(max(1, all)); share != im.share {
			im.share = share
			moved = append(moved, im.name)
		}
	}
	return moved
}

// refitImage looks again at the nodes that have the image.
func (x *Index) refitImage(c *Class, name string) {
	//archtest:any-order each node is by itself
	for n := range x.m.Images.On(name) {
		if b := n.Bucket; b != nil {
			if f := &c.ByBucket[b.ID]; f.bucket == b && f.epoch == b.Epoch {
				x.refit(c, n)
			}
		}
	}
}

// locality is the points for images of the class that the node has.
func (c *Class) locality(n *cluster.Node) int32 {
	var sum int64
	for i := range c.images {
		if has, ok := n.Spec.Image(c.images[i].name); ok {
			sum += int64(float64(has.Bytes) * c.images[i].share)
		}
	}
	most := mostImage * c.pulled
	sum = max(leastImage, min(sum, most))
	return int32(mostPoints * (sum - leastImage) / (most - leastImage))
}
