package devices

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// NewDeriver evaluates expressions by which requests derive attributes of devices. Compiled ones are kept. It may be used by several
// goroutines.
func NewDeriver() func(expression, driver string, d *resourcev1.Device) (*resourcev1.DeviceAttribute, error) {
	cache := cel.NewCache(programs, celFeatures)
	return func(expression, driver string, d *resourcev1.Device) (*resourcev1.DeviceAttribute, error) {
		p := cache.GetOrCompileDerivedAttribute(expression)
		if p.Error != nil {
			return nil, fmt.Errorf("derived attribute %q: %s", expression, p.Error.Detail)
		}
		a, _, err := p.EvaluateDerivedAttribute(context.Background(), cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
		return a, err
	}
}
