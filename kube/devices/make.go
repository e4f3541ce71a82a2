package devices

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// ErrNoDevices says that the claims cannot be met with the devices that are offered.
var ErrNoDevices = errors.New("the claims cannot be met with these devices")

// Maker makes allocations for claims, all together, out of the devices on offer, all that the claims in held do not have.
type Maker func(ctx context.Context, n *corev1.Node, offered []*resourcev1.ResourceSlice, classes []*resourcev1.DeviceClass, claims, held []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error)

// NewMaker returns a Maker that keeps compiled selectors. It may be used by several goroutines.
func NewMaker() Maker {
	cache := cel.NewCache(programs, celFeatures)
	return func(ctx context.Context, n *corev1.Node, offered []*resourcev1.ResourceSlice, classes []*resourcev1.DeviceClass, claims, held []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
		ctx, cancel := context.WithTimeout(ctx, allocateFor)
		defer cancel()
		a, err := structured.NewAllocator(ctx, everything, allocatedIn(held), classLister(classes), offered, cache)
		if err != nil {
			return nil, fmt.Errorf("allocate: %w", err)
		}
		got, err := a.Allocate(ctx, n, claims)
		switch {
		case err != nil:
			return nil, fmt.Errorf("allocate: %w", err)
		case len(got) != len(claims):
			return nil, ErrNoDevices
		}
		return got, nil
	}
}
