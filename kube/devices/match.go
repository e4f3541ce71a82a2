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
	return newMatcher().matches
}

// Expressions are tenants', who may write new ones for as long as they like, and a device is another one whenever its driver
// writes its slice. So what is remembered has two generations: once the young one has so much, it is the old one, and what
// was not asked for since the last time is forgotten.
const (
	mostPrograms = 1 << 10
	mostVerdicts = 1 << 20
)

type matcher struct {
	mu         sync.Mutex
	young, old map[string]*program // by expression
	verdicts   int                 // in the young generation
}

func newMatcher() *matcher { return &matcher{young: make(map[string]*program)} }

type program struct {
	cel.CompilationResult
	found, before map[*resourcev1.Device]verdict // in this generation, and in the one before
}

type verdict struct {
	ok  bool
	err error
}

func (m *matcher) matches(expression, driver string, d *resourcev1.Device) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.program(expression)
	if p.Error != nil {
		return false, fmt.Errorf("selector %q: %s", expression, p.Error.Detail)
	}
	v, known := p.found[d]
	if known {
		return v.ok, v.err
	}
	if v, known = p.before[d]; !known {
		v.ok, _, v.err = p.DeviceMatches(context.Background(), cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
	}
	p.found[d] = v
	if m.verdicts++; m.verdicts >= mostVerdicts {
		m.age()
	}
	return v.ok, v.err
}

// program is the expression's, of the young generation.
func (m *matcher) program(expression string) *program {
	if p := m.young[expression]; p != nil {
		return p
	}
	p := &program{found: make(map[*resourcev1.Device]verdict)}
	if was := m.old[expression]; was != nil {
		p.CompilationResult, p.before = was.CompilationResult, was.found
	} else {
		p.CompilationResult = cel.GetCompiler(celFeatures).CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	}
	if len(m.young) >= mostPrograms {
		m.age()
	}
	m.young[expression] = p
	return p
}

// age makes the young generation the old one.
func (m *matcher) age() {
	for _, p := range m.young {
		p.before = nil
	}
	m.old, m.young, m.verdicts = m.young, make(map[string]*program), 0
}
