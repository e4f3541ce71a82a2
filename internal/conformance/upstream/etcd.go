package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdStart bounds the start of an empty store.
const etcdStart = time.Minute

// startEtcd starts the store that all tests share, each under a prefix of its own: on loopback, without fsync, gone
// with the program. Upstream's tests find it by a TCP address.
func startEtcd(dir string) (endpoint string, stop func(), err error) {
	data, err := os.MkdirTemp(dir, "etcd-")
	if err != nil {
		return "", nil, fmt.Errorf("folder for etcd: %w", err)
	}
	client, err := freePort()
	if err != nil {
		return "", nil, err
	}
	peer, err := freePort()
	if err != nil {
		return "", nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name = data, "conformance"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = 8 << 30
	cfg.TickMs, cfg.ElectionMs = 10, 100 // a single member elects itself
	cfg.LogLevel = "fatal"               // it reports as errors what is usual for an empty store
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("etcd: %w", err)
	}
	stop = func() { server.Close(); os.RemoveAll(data) }
	select {
	case <-server.Server.ReadyNotify():
		return client.String(), stop, nil
	case err = <-server.Err():
	case <-time.After(etcdStart):
		err = fmt.Errorf("not ready after %s", etcdStart)
	}
	stop()
	return "", nil, fmt.Errorf("etcd: %w", err)
}

func freePort() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}
