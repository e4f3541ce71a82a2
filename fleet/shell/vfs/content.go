package vfs

// chunkBytes is how a file's content is cut, so that it grows without being copied: what it takes is what it
// holds, and a part of a chunk.
const chunkBytes = 32 << 10

// content is the bytes of a file. All chunks but the last are full.
type content struct {
	chunks [][]byte
	size   int
}

// readAt copies from off on and returns how much.
func (c *content) readAt(b []byte, off int) int {
	done := 0
	for done < len(b) && off+done < c.size {
		at := off + done
		done += copy(b[done:], c.chunks[at/chunkBytes][at%chunkBytes:])
	}
	return done
}

// writeAt copies b to off; what lies between the end and off becomes zeros.
func (c *content) writeAt(b []byte, off int) {
	if end := off + len(b); end > c.size {
		c.resize(end)
	}
	for done := 0; done < len(b); {
		at := off + done
		done += copy(c.chunks[at/chunkBytes][at%chunkBytes:], b[done:])
	}
}

// resize cuts the content to n bytes, or adds zeros.
func (c *content) resize(n int) {
	if n < c.size {
		full := (n + chunkBytes - 1) / chunkBytes
		clear(c.chunks[full:])
		c.chunks = c.chunks[:full]
		if last := n % chunkBytes; last > 0 {
			c.chunks[full-1] = append(make([]byte, 0, last), c.chunks[full-1][:last]...)
		}
		if full == 0 {
			c.chunks = nil
		}
		c.size = n
		return
	}
	for c.size < n {
		used := c.size % chunkBytes
		if used == 0 {
			c.chunks = append(c.chunks, nil)
		}
		last := len(c.chunks) - 1
		more := min(chunkBytes-used, n-c.size)
		c.chunks[last] = lengthen(c.chunks[last], used+more)
		c.size += more
	}
}

// lengthen adds zeros to a chunk, doubling it as long as it is small.
func lengthen(b []byte, n int) []byte {
	if n > cap(b) {
		b = append(make([]byte, 0, min(max(n, 2*cap(b)), chunkBytes)), b...)
	}
	grown := b[:n]
	clear(grown[len(b):])
	return grown
}
