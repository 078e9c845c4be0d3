"""What a container image needs that serves some models: a Dockerfile, the models, and Headway itself."""
