// Package main is every server of a Kubernetes cluster in one binary, chosen by the first argument.
//
// One binary instead of seven: the parts share nearly all their code, so one link saves minutes of building
// and half a gigabyte of disk, and the page cache holds that code once for all processes of all nodes.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var parts = map[string]func(arguments []string) int{
	"etcd":                    func(arguments []string) int { etcdmain.Main(arguments); return 0 },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllers.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func command(build func() *cobra.Command) func([]string) int {
	return func([]string) int { return cli.Run(build()) }
}

func main() {
	if len(os.Args) > 1 {
		if run, known := parts[os.Args[1]]; known {
			// Each part reads os.Args itself and expects to stand in place 0.
			os.Args = os.Args[1:]
			os.Exit(run(os.Args))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kubernetes PART [FLAG...], PART one of:", strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
	os.Exit(2)
}
