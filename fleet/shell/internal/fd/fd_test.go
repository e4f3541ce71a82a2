package fd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// TestPipe covers what the ends of a pipe do to each other.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r, w := Pipe(nil)
		go func() {
			_, _ = io.WriteString(w.Writer(ctx), strings.Repeat("x", 3*pipeBytes))
			w.Release()
		}()
		if got, err := io.ReadAll(r.Reader(ctx)); len(got) != 3*pipeBytes || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		r.Release()
		r, w = Pipe(nil)
		r.Release()
		if _, err := w.WriteContext(ctx, []byte("x")); !errors.Is(err, ErrBroken) {
			t.Errorf("write without a reader: %v", err)
		}
	})
}

// TestPipeEndsWithTheLastWriter checks that a kept stream holds a pipe open.
func TestPipeEndsWithTheLastWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := Pipe(nil)
		other := w.Keep()
		w.Release()
		read := make(chan error)
		go func() {
			_, err := r.ReadContext(t.Context(), make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		select {
		case err := <-read:
			t.Fatalf("ended while a writer was left: %v", err)
		default:
		}
		other.Release()
		if err := <-read; err != io.EOF {
			t.Errorf("read: %v", err)
		}
	})
}

// TestWaitsEndWithTheContext checks every stream that can wait.
func TestWaitsEndWithTheContext(t *testing.T) {
	cause := errors.New("over")
	for name, wait := range map[string]func(ctx context.Context) error{
		"empty pipe": func(ctx context.Context) error {
			r, w := Pipe(nil)
			defer w.Release()
			_, err := r.ReadContext(ctx, make([]byte, 1))
			return err
		},
		"full pipe": func(ctx context.Context) error {
			r, w := Pipe(nil)
			defer r.Release()
			_, err := w.WriteContext(ctx, make([]byte, pipeBytes+1))
			return err
		},
		"silent reader": func(ctx context.Context) error {
			r, w := io.Pipe()
			defer w.Close()
			_, err := Input(r, nil).ReadContext(ctx, make([]byte, 1))
			return err
		},
		"taken writer": func(ctx context.Context) error {
			r, w := io.Pipe()
			defer r.Close()
			a, b := Outputs(w, w)
			go func() { _, _ = a.WriteContext(context.Background(), []byte("x")) }()
			time.Sleep(time.Millisecond)
			_, err := b.WriteContext(ctx, []byte("x"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				if err := wait(ctx); !errors.Is(err, cause) {
					t.Errorf("%v, want %v", err, cause)
				}
			})
		})
	}
}

func TestClosedAndWrongWay(t *testing.T) {
	var none *Stream
	none.Release()
	if _, err := none.ReadContext(t.Context(), nil); err != vfs.EBADF {
		t.Errorf("read of a closed descriptor: %v", err)
	}
	text, _ := Text("x", nil)
	if _, err := text.WriteContext(t.Context(), nil); err != vfs.EBADF {
		t.Errorf("write to a reader: %v", err)
	}
	var b bytes.Buffer
	if _, err := Output(&b).ReadContext(t.Context(), nil); err != vfs.EBADF {
		t.Errorf("read of a writer: %v", err)
	}
	if got, err := io.ReadAll(Input(nil, nil).Reader(t.Context())); len(got) != 0 || err != nil {
		t.Errorf("nil reader: %q, %v", got, err)
	}
}
