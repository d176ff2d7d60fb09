// Makes the topics of these subjects where they are missing.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/segmentio/kafka-go"
)

func main() {
	client := kafka.Client{Addr: kafka.TCP(os.Getenv("KAFKA_BROKERS"))}
	request := kafka.CreateTopicsRequest{}
	for _, subject := range os.Args[1:] {
		topic := kafka.TopicConfig{Topic: os.Getenv("SUBJECT_PREFIX") + subject, NumPartitions: 3, ReplicationFactor: 1}
		request.Topics = append(request.Topics, topic)
	}
	answer, err := client.CreateTopics(context.Background(), &request)
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range answer.Errors {
		if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			log.Fatal(err)
		}
	}
}
