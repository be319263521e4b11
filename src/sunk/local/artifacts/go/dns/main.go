// Package main is CoreDNS with only the plugins that a local cluster uses.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order is the order in which a query passes the plugins. `template` comes last and answers NXDOMAIN for
	// every name outside the cluster: a local cluster asks nobody on the network.
	dnsserver.Directives = []string{"bind", "ready", "errors", "cache", "kubernetes", "template"}
	coremain.Run()
}
