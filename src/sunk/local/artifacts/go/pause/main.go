// Package main holds a Pod's namespaces open and reaps what is orphaned in them, until it is told to stop.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for reaped, err := 1, error(nil); reaped > 0 && err == nil; {
			reaped, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}
