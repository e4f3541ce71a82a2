package inspect

import (
	"errors"
	"fmt"
)

// Bounds of what is read, so that no file can take all memory. 10,000 pods on 5,000 nodes of a real cluster take about a
// quarter of them.
const (
	maxManifest = 8 << 20
	maxFile     = 256 << 20 // bytes of one file
	maxAll      = 512 << 20 // of all together
	maxFiles    = 20000
	maxLine     = 8 << 20 // of one object; no API server takes more than two
	maxDepth    = 100     // of JSON
	maxObjects  = 500_000
	maxMemory   = 2 << 30 // that the objects may take, by estimate
	// maxRatio is how much smaller than its content a bundle may be. Ten thousand pods that are alike reach about 200.
	maxRatio = 1000
	maxSmall = 64 << 20 // a bundle may always hold this much
)

// errTooLarge is of content beyond all proportion.
var errTooLarge = errors.New("it holds more than any bundle of its size does: it is not read further")

// budget is what may still be read.
type budget struct {
	objects int
	memory  int64
}

func newBudget() *budget { return &budget{objects: maxObjects, memory: maxMemory} }

// take pays for an object before it is decoded.
func (b *budget) take(line []byte) error {
	if len(line) > maxLine {
		return fmt.Errorf("an object of %d bytes, more than the %d that are read", len(line), maxLine)
	}
	memory, err := weigh(line)
	if err != nil {
		return err
	}
	b.objects--
	b.memory -= memory
	switch {
	case b.objects < 0:
		return fmt.Errorf("more than the %d objects that are read", maxObjects)
	case b.memory < 0:
		return fmt.Errorf("its objects need more than the %d MiB of memory that reading may take", maxMemory>>20)
	}
	return nil
}

// weigh estimates the memory that JSON takes once it is decoded into Kubernetes' types: three bytes in a list can become
// a Container of a thousand. It fails where values are nested too deeply. One pass, nothing is allocated.
func weigh(text []byte) (memory int64, err error) {
	const object, item, value = 2 << 10, 900, 48
	memory = object + 2*int64(len(text))
	depth, quoted := 0, false
	var before byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		switch c {
		case '"':
			quoted = true
		case '{', '[':
			memory += value
			if c == '{' && (before == '[' || before == ',') {
				memory += item
			}
			if depth++; depth > maxDepth {
				return 0, fmt.Errorf("values are nested more than %d deep", maxDepth)
			}
		case '}', ']':
			depth--
		case ',':
			memory += value
		case ' ', '\t', '\r':
			continue
		}
		before = c
	}
	return memory, nil
}
