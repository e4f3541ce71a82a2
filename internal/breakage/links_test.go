package main

import "testing"

// Only a field that another kind of object has something in common with, or that is no metadata, is worth a draw of its own.
func TestLinks(t *testing.T) {
	node := object{kind{name: "Node"}, decode([]byte(`{"metadata": {"name": "a", "labels": {"team": "x", "gfd/minor": "0", "arch": "amd64"}}, "spec": {"podCIDR": "10.0.0.0/24"}}`))}
	other := object{kind{name: "Node"}, decode([]byte(`{"metadata": {"name": "b", "labels": {"team": "y", "gfd/minor": "0", "arch": "amd64"}}}`))}
	pod := object{kind{name: "Pod"}, decode([]byte(`{"metadata": {"name": "p"}, "spec": {"nodeSelector": {"team": "x"}, "priority": 0}}`))}
	m := mentionsOf([]object{node, other, pod})
	for _, c := range []struct {
		path path
		want bool
	}{
		{path{"metadata", "labels", "team"}, true},
		{path{"metadata", "labels", "gfd/minor"}, false}, // a number is in every object
		{path{"metadata", "labels", "arch"}, false},      // nodes alone have it
		{path{"metadata", "labels"}, true},
		{path{"spec", "podCIDR"}, true},
	} {
		v, ok := get(node.body, c.path)
		if !ok {
			t.Fatalf("no %s", c.path)
		}
		if got := m.links("Node", c.path, v); got != c.want {
			t.Errorf("%s: links %v, want %v", c.path, got, c.want)
		}
	}
}
