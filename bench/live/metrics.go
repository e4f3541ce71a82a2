package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// writes are the requests that may change something, by "verb resource/subresource", which the API server has
// answered since it started.
type writes map[string]float64

// written asks the API server.
func (c *cluster) written(ctx context.Context) (writes, error) {
	body, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer body.Close()
	return readWrites(body)
}

// sample matches a line of the text format: a name, labels, a value.
var sample = regexp.MustCompile(`^[a-z_]+\{(.*)\} ([0-9.e+-]+)$`)

// label matches one label. Values here hold no quotes.
var label = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

func readWrites(r io.Reader) (writes, error) {
	w := writes{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "apiserver_request_total{") {
			if err := w.add(lines.Text()); err != nil {
				return nil, err
			}
		}
	}
	return w, lines.Err()
}

func (w writes) add(line string) error {
	m := sample.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("not a metric: %s", line)
	}
	value, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	for _, l := range label.FindAllStringSubmatch(m[1], -1) {
		labels[l[1]] = l[2]
	}
	switch labels["verb"] {
	case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		what := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			what += "/" + labels["subresource"]
		}
		w[what] += value
	}
	return nil
}

// since is what came after before.
func (w writes) since(before writes) writes {
	out := writes{}
	for what, n := range w {
		if d := n - before[what]; d > 0 {
			out[what] = d
		}
	}
	return out
}

// byScheduler counts the writes that only a scheduler makes here. Left out are what the measurement itself
// makes (pods, groups), what machines write (PUT pods/status, DELETE pods after the scheduler's), leases, whose number follows
// time and not work, and the API server's own.
func (w writes) byScheduler() float64 {
	var n float64
	for what, count := range w {
		verb, resource, _ := strings.Cut(what, " ")
		if verb == "PUT" && resource == "pods/status" {
			continue
		}
		switch resource {
		case "pods/binding", "pods/status", "pods/eviction", "podgroups/status", "berthqueues/status", "persistentvolumeclaims", "events":
			n += count
		}
	}
	return n + w["PATCH pods"] + w["DELETE pods"]
}
