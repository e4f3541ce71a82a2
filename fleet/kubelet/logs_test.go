package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestLogOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		fmt.Fprint(j.writer(stdout), "one\ntw")
		fmt.Fprint(j.writer(stderr), "oops\n")
		time.Sleep(10 * time.Second)
		fmt.Fprint(j.writer(stdout), "o\nthree\nunfinished")
		read := func(o corev1.PodLogOptions) string {
			var out bytes.Buffer
			if err := copyLog(t.Context(), j, &o, &out); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		errOnly := corev1.LogStreamStderr
		got := []string{
			read(corev1.PodLogOptions{}),
			read(corev1.PodLogOptions{TailLines: new(int64(2))}),
			read(corev1.PodLogOptions{TailLines: new(int64(0))}),
			read(corev1.PodLogOptions{SinceSeconds: new(int64(5))}),
			read(corev1.PodLogOptions{LimitBytes: new(int64(6))}),
			read(corev1.PodLogOptions{LimitBytes: new(int64(4))}),
			read(corev1.PodLogOptions{Stream: &errOnly, Timestamps: true}),
		}
		want := []string{"one\noops\ntwo\nthree\n", "two\nthree\n", "", "two\nthree\n", "one\noo", "one\n", "2000-01-01T00:00:00Z oops\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		j.end()
		if got := read(corev1.PodLogOptions{TailLines: new(int64(1))}); got != "unfinished" {
			t.Errorf("at the end of the stream: %q", got)
		}
	})
}

func TestFollowEndsWithTheContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		var out bytes.Buffer
		done := make(chan error)
		go func() { done <- copyLog(context.Background(), j, &corev1.PodLogOptions{Follow: true}, &out) }()
		for i := range 3 {
			synctest.Wait()
			fmt.Fprintf(j.writer(stdout), "%d\n", i)
		}
		j.end()
		if err := <-done; err != nil || out.String() != "0\n1\n2\n" {
			t.Errorf("followed %q, %v", out.String(), err)
		}
	})
}

// The log is bounded by bytes and loses whole lines, oldest first; an endless line is cut.
func TestLogIsBounded(t *testing.T) {
	j := new(journal)
	out := j.writer(stdout)
	for i := range 3 * logLimit / 100 {
		fmt.Fprintf(out, "%098d\n", i)
	}
	first, next := j.span(time.Time{}, -1)
	if j.held.size > logLimit || next != 3*logLimit/100 || next-first != logLimit/(99+lineCost) {
		t.Errorf("%d bytes in %d lines of %d", j.held.size, next-first, next)
	}
	fmt.Fprint(out, strings.Repeat("x", lineLimit+1))
	lines, _, _ := j.since(next)
	if len(lines) != 1 || len(lines[0].text) != lineLimit {
		t.Errorf("an endless line became %d lines", len(lines))
	}
}

func TestViewerThatDoesNotReadStallsNobody(t *testing.T) {
	j := new(journal)
	v := j.attach()
	for range 10_000 {
		fmt.Fprint(j.writer(stdout), "line\n")
	}
	j.end()
	n := 0
	for range v {
		n++
	}
	if n != cap(v) {
		t.Errorf("got %d chunks, want what fits: %d", n, cap(v))
	}
}
