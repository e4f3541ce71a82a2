package devices

import (
	"context"
	"fmt"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// celFeatures are all that there are: an expression that the API server took must be understood.
var celFeatures = cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}

// NewMatcher evaluates selectors of devices. What it found is kept: for the same device, by pointer, it answers from memory.
// It may be used by several goroutines.
func NewMatcher() func(expression, driver string, d *resourcev1.Device) (bool, error) {
	m := &matcher{programs: make(map[string]*program)}
	return m.matches
}

type matcher struct {
	mu       sync.Mutex
	programs map[string]*program // by expression
}

type program struct {
	cel.CompilationResult
	found map[*resourcev1.Device]verdict
}

type verdict struct {
	ok  bool
	err error
}

func (m *matcher) matches(expression, driver string, d *resourcev1.Device) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.programs[expression]
	if p == nil {
		c := cel.GetCompiler(celFeatures)
		p = &program{c.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true}), make(map[*resourcev1.Device]verdict)}
		m.programs[expression] = p
	}
	if p.Error != nil {
		return false, fmt.Errorf("selector %q: %s", expression, p.Error.Detail)
	}
	v, known := p.found[d]
	if !known {
		v.ok, _, v.err = p.DeviceMatches(context.Background(), cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
		p.found[d] = v
	}
	return v.ok, v.err
}
