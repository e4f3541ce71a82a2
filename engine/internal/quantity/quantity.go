package quantity

import "github.com/berth-dev/berth/engine/internal/api"

// Dims numbers the resources seen so far. Numbers are positions in vectors, and decide nothing.
type Dims struct {
	Names []string
	IDs   map[string]int
}

// The first dimensions are always there, so that hot paths can name them.
const (
	DimPods = iota
	DimGPU
)

// NewDims numbers the pods themselves first, and then the resource that counts GPUs.
func NewDims(gpu string) *Dims {
	d := &Dims{IDs: make(map[string]int)}
	d.ID(api.Pods)
	d.ID(gpu)
	return d
}

// ID returns the number of the resource, giving it the next one if it is new.
func (d *Dims) ID(resource string) int {
	for i, name := range d.Names[:min(len(d.Names), 8)] {
		if name == resource {
			return i
		}
	}
	i, ok := d.IDs[resource]
	if !ok {
		i = len(d.Names)
		d.Names = append(d.Names, resource)
		d.IDs[resource] = i
	}
	return i
}

// Vector holds amounts by dimension; positions beyond its end are zero.
type Vector []int64

// At returns the amount of the dimension.
func (v Vector) At(dim int) int64 {
	if dim < len(v) {
		return v[dim]
	}
	return 0
}

// Add adds to the amount of the dimension; the vector grows as needed.
func (v *Vector) Add(dim int, amount int64) {
	if more := dim + 1 - len(*v); more > 0 {
		*v = append(*v, make(Vector, more)...)
	}
	(*v)[dim] += amount
}

// Demand is one positive request.
type Demand struct {
	Dim    int
	Amount int64
}

// Demands are the positive requests of a pod, its place among the node's pods first.
func (d *Dims) Demands(r api.Resources) []Demand {
	out := make([]Demand, 0, len(r)+1)
	out = append(out, Demand{DimPods, 1})
	for _, a := range r {
		if a.Value > 0 && a.Resource != api.Pods {
			out = append(out, Demand{d.ID(a.Resource), a.Value})
		}
	}
	return out
}
