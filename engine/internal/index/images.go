package index

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// A node that has images of a pod is preferred, as Kubernetes' ImageLocality has it: by their size times the share of nodes that
// have them, so that the first node with an image does not draw all its pods. The share is exact up to 63 nodes and of six
// significant bits above, so that nodes are looked at again when it has changed by some part of itself.
//
// For example, an image of 12 GB is on 40 of 100 nodes, which count as 100: each of the 40 has 40/100 of 12 GB, which is far above the most
// that one image counts for (1,000 MB), and so all the points that there are. An image of 100 MB has 40 MB on each, of which the first 23
// count for nothing: 17 of 977 parts, 1 point of 100.
//
// The share is of all nodes, so that one pull changes the score of every node with the image, which the numbers of their rooms do not
// tell. So Sync compares shares beside the numbers (rateImages), and measures the nodes that have the image where one is another
// (refitImage). With exact shares that would be so after every pull while a fleet warms up; with coarse ones it is so some 32 times for
// each doubling of the nodes that have it.

// Bounds of what images count for, in bytes: less than the first for all together is nothing, more than the second for each is the most.
// They are upstream's minThreshold and maxContainerThreshold (imagelocality/image_locality.go, Kubernetes v1.37), which took them for
// the usual sizes of images on a public registry. Images for GPUs are mostly larger, so that one that is widely pulled has all points.
const (
	leastImage = 23 << 20
	mostImage  = 1000 << 20
)

// classImage is an image of a class's pods that some node has.
type classImage struct {
	name  string
	share float64 // of nodes that have it
}

// setImages reads ClassKey.Images: how many images the pods have, then those of them that some node has. An image that no node has
// gives points to none, and is left out so that pods that differ in it alone are of one class. The number counts all of them,
// because what the points are scaled to grows with it (locality).
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

// rateImages brings the shares of nodes up to date, and returns the images of which it is another. It costs a lookup for each image.
// It comes before buckets are followed, so that nodes that are measured for another reason have the new share at once.
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

// refitImage looks again at the nodes that have the image. Nodes without it have no points of it, whatever its share is. A bucket that the
// class has not looked at, or that has other nodes by now, is passed over: it is measured as a whole.
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

// locality is the points for images of the class that the node has, from 0 to mostPoints. The product is cut to whole bytes image by
// image, as upstream cuts it, so that the points are the same.
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
